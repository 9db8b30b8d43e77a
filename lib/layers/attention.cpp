#include "lib/layers/attention.h"

#include <cmath>

#include "kernels/attention.h"

namespace comera::layers {

kernels::AttentionShape Attention::shape(const Pass& pass) const {
  return {pass.sequences,
          pass.length,
          pass.length,
          settings_.heads,
          settings_.key_heads,
          settings_.head_size,
          1 / std::sqrt(static_cast<double>(settings_.head_size)),
          static_cast<const std::int32_t*>(key_begin_.data),
          static_cast<const std::int32_t*>(key_end_.data)};
}

Value Attention::forward(Pass& pass, Tensor q, Tensor k, Tensor v, const Tensor& key_begin, const Tensor& key_end) {
  Walk& walk = pass.walk;
  key_begin_ = key_begin, key_end_ = key_end;
  const std::int64_t wide = settings_.heads * settings_.head_size, narrow = settings_.key_heads * settings_.head_size;
  const bool saves = pass.policy.saves();
  const Value out{walk.make("attention", {pass.tokens(), wide}), nullptr};
  if (saves) lse_ = walk.make_statistic("lse", {pass.sequences, settings_.heads, pass.length});
  walk.run(pass.backend().attention_forward,
           kernels::AttentionForward{.shape = shape(pass),
                                     .q = q.data,
                                     .ldq = wide,
                                     .k = k.data,
                                     .ldk = narrow,
                                     .v = v.data,
                                     .ldv = narrow,
                                     .dropout = pass.dropout(settings_.dropout, site_, pass.length),
                                     .out = out.tensor.data,
                                     .ld_out = wide,
                                     .lse = saves ? lse_.data : nullptr});
  pass.policy.take(walk, q, Use::value, q_);
  pass.policy.take(walk, k, Use::value, k_);
  pass.policy.take(walk, v, Use::value, v_);
  pass.policy.save(walk, out, Use::value, out_);
  return out;
}

Value Attention::forward_cached(Pass& pass, Tensor q, const Tensor& keys, const Tensor& values, const Tensor& key_begin,
                                const Tensor& key_end) {
  key_begin_ = key_begin, key_end_ = key_end;
  const std::int64_t wide = settings_.heads * settings_.head_size, narrow = settings_.key_heads * settings_.head_size;
  Value out{pass.walk.make("attention", {pass.tokens(), wide}), nullptr};
  kernels::AttentionShape cached = shape(pass);
  cached.keys = keys.shape[0] / pass.sequences;
  pass.walk.run(pass.backend().attention_forward, kernels::AttentionForward{.shape = cached,
                                                                            .q = q.data,
                                                                            .ldq = wide,
                                                                            .k = keys.data,
                                                                            .ldk = narrow,
                                                                            .v = values.data,
                                                                            .ldv = narrow,
                                                                            .dropout = {},
                                                                            .out = out.tensor.data,
                                                                            .ld_out = wide,
                                                                            .lse = nullptr});
  pass.walk.drop(q);
  return out;
}

void Attention::backward(Pass& pass, Tensor d_out, Tensor& dq, Tensor& dk, Tensor& dv) {
  Walk& walk = pass.walk;
  const std::int64_t wide = settings_.heads * settings_.head_size, narrow = settings_.key_heads * settings_.head_size;
  Tensor q = q_->value(walk), k = k_->value(walk), v = v_->value(walk), out = out_->value(walk);
  dq = walk.make("dq", q.shape);
  dk = walk.make("dk", k.shape);
  dv = walk.make("dv", v.shape);
  walk.run(pass.backend().attention_backward,
           kernels::AttentionBackward{.shape = shape(pass),
                                      .q = q.data,
                                      .ldq = wide,
                                      .k = k.data,
                                      .ldk = narrow,
                                      .v = v.data,
                                      .ldv = narrow,
                                      .dropout = pass.dropout(settings_.dropout, site_, pass.length),
                                      .out = out.data,
                                      .ld_out = wide,
                                      .lse = lse_.data,
                                      .d_out = d_out.data,
                                      .dq = dq.data,
                                      .dk = dk.data,
                                      .dv = dv.data});
  for (Tensor* tensor : {&q, &k, &v, &out, &lse_, &d_out}) walk.drop(*tensor);
}

}  // namespace comera::layers
