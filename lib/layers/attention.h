// Multi-head self-attention between the projections: takes q, k and v, gives the heads' outputs side by side.
#pragma once

#include "kernels/attention.h"
#include "lib/layers/builder.h"
#include "lib/layers/pass.h"

namespace comera::layers {

class Attention {
 public:
  struct Settings {
    std::int64_t heads = 0, key_heads = 0, head_size = 0;
    double dropout = 0;  // of the probabilities
  };

  Attention(Builder& builder, const Settings& settings) : settings_(settings), site_(builder.dropout_site()) {}

  // Takes q [K, H D], k and v [K, Hkv D]; the caller drops the output [K, H D]. key_begin, key_end: i32 [B, T], device
  // memory, each may be empty.
  Value forward(Pass& pass, Tensor q, Tensor k, Tensor v, const Tensor& key_begin, const Tensor& key_end);
  // Without a backward: takes q; keys and values [B * capacity, Hkv D] are a cache's, the ranges count its rows.
  Value forward_cached(Pass& pass, Tensor q, const Tensor& keys, const Tensor& values, const Tensor& key_begin,
                       const Tensor& key_end);
  // Takes d_out; the caller drops dq, dk, dv.
  void backward(Pass& pass, Tensor d_out, Tensor& dq, Tensor& dk, Tensor& dv);

 private:
  kernels::AttentionShape shape(const Pass& pass) const;

  Settings settings_;
  std::uint32_t site_;
  Tensor key_begin_, key_end_;
  Tensor q_, k_, v_, lse_;
  Tensor out_;
};

}  // namespace comera::layers
