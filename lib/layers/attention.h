// Multi-head self-attention between the projections: takes q, k and v, returns the concatenated outputs of the heads.
#pragma once

#include <optional>

#include "kernels/attention.h"
#include "lib/layers/training/builder.h"
#include "lib/layers/training/pass.h"

namespace comera::layers {

class RelativeBias;

class Attention {
 public:
  struct Settings {
    std::int64_t heads = 0, key_heads = 0, head_size = 0;
    double dropout = 0;            // of the probabilities
    RelativeBias* bias = nullptr;  // of the scores, optional; belongs to the model
  };

  // `name`: of the layer, for rules of activations.
  Attention(Builder& builder, const std::string& name, const Settings& settings)
      : settings_(settings), site_(builder.dropout_site()), q_{name}, k_{name}, v_{name}, out_{name} {}

  // Takes ownership of q [K, H D], k and v [K, Hkv D]. The caller drops the output [K, H D]. key_begin, key_end: i32
  // [B, T] in device memory; each may be empty.
  Value forward(Pass& pass, Tensor q, Tensor k, Tensor v, const Tensor& key_begin, const Tensor& key_end);
  // The same for q, k and v beside each other in one tensor [K, (H + 2 Hkv) D], which it takes.
  Value forward_joined(Pass& pass, Tensor qkv, const Tensor& key_begin, const Tensor& key_end);
  // For evaluation only. Takes ownership of q: [K, H D], or the columns of q in such a tensor. keys and values [B *
  // capacity, Hkv D] belong to a cache, and the ranges count its rows.
  Value forward_cached(Pass& pass, Tensor q, const Tensor& keys, const Tensor& values, const Tensor& key_begin,
                       const Tensor& key_end);
  // Takes ownership of d_out; the caller drops dq, dk, dv.
  void backward(Pass& pass, Tensor d_out, Tensor& dq, Tensor& dk, Tensor& dv);
  Tensor backward_joined(Pass& pass, Tensor d_out);

 private:
  // Memory of q, k and v or of their gradients, and the distance between its rows.
  struct Rows {
    void* data = nullptr;
    std::int64_t ld = 0;
  };
  struct Inputs {
    Rows q, k, v;
  };
  std::int64_t wide() const { return settings_.heads * settings_.head_size; }
  std::int64_t narrow() const { return settings_.key_heads * settings_.head_size; }
  Inputs apart(const Tensor& q, const Tensor& k, const Tensor& v) const;
  Inputs joined(const Tensor& qkv) const;
  kernels::AttentionShape shape(const Pass& pass) const;
  // Returns the output. Makes lse_ if the policy saves.
  Tensor attend(Pass& pass, const kernels::AttentionShape& shape, const kernels::Dropout& dropout, const Inputs& inputs,
                bool saves);
  // The end of a forward: the output, and the log-sum-exp if the scores are exact.
  void keep_output(Pass& pass, const Value& out, bool exact);
  // The backward without its inputs.
  kernels::AttentionBackward gradients_of(Pass& pass, const Inputs& gradients, const Tensor& d_out) const;
  void differentiate(Pass& pass, const Inputs& inputs, const Inputs& gradients, Tensor d_out, bool exact);
  // The backward from codes, where all that it reads is in codes and the backend can; else nullopt. k and v begin at
  // these columns of the codes.
  std::optional<kernels::CodedAttentionBackward> coded_call(Pass& pass, const Slot& k, std::int64_t k_column,
                                                            const Slot& v, std::int64_t v_column) const;
  void differentiate_coded(Pass& pass, kernels::CodedAttentionBackward& call, const Inputs& gradients, Tensor d_out);

  Settings settings_;
  std::uint32_t site_;
  Tensor key_begin_, key_end_;
  Slot q_, k_, v_, out_;  // joined: q_ is all three
  Tensor lse_;            // if the scores are exact
};

}  // namespace comera::layers
