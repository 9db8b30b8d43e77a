// Multi-head self-attention between the projections: takes q, k and v, returns the concatenated outputs of the heads.
#pragma once

#include "lib/layers/training/builder.h"
#include "lib/layers/training/pass.h"

namespace comera::kernels {
struct AttentionShape;
}  // namespace comera::kernels

namespace comera::layers {

class Attention {
 public:
  struct Settings {
    std::int64_t heads = 0, key_heads = 0, head_size = 0;
    double dropout = 0;  // of the probabilities
  };

  // `name`: of the layer, for rules of activations.
  Attention(Builder& builder, const std::string& name, const Settings& settings)
      : settings_(settings), site_(builder.dropout_site()), q_{name}, k_{name}, v_{name}, out_{name} {}

  // Takes ownership of q [K, H D], k and v [K, Hkv D]. The caller drops the output [K, H D]. key_begin, key_end: i32
  // [B, T] in device memory; each may be empty.
  Value forward(Pass& pass, Tensor q, Tensor k, Tensor v, const Tensor& key_begin, const Tensor& key_end);
  // For evaluation only. Takes ownership of q. keys and values [B * capacity, Hkv D] belong to a cache, and the ranges
  // count its rows.
  Value forward_cached(Pass& pass, Tensor q, const Tensor& keys, const Tensor& values, const Tensor& key_begin,
                       const Tensor& key_end);
  // Takes ownership of d_out; the caller drops dq, dk, dv.
  void backward(Pass& pass, Tensor d_out, Tensor& dq, Tensor& dk, Tensor& dv);

 private:
  kernels::AttentionShape shape(const Pass& pass) const;
  // Returns the output. Makes lse_ if the policy saves.
  Tensor attend(Pass& pass, const kernels::AttentionShape& shape, const kernels::Dropout& dropout, const Tensor& q,
                const Tensor& k, const Tensor& v, bool saves);
  bool scores_are_exact() const;  // of what is saved

  Settings settings_;
  std::uint32_t site_;
  Tensor key_begin_, key_end_;
  Slot q_, k_, v_, out_;
  Tensor lse_;  // if the scores are exact
};

}  // namespace comera::layers
