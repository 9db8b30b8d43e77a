#include "lib/layers/attention.h"

#include <cmath>

#include "kernels/attention.h"

namespace comera::layers {

kernels::AttentionShape Attention::shape(const Pass& pass) const {
  return {.batch = pass.sequences,
          .queries = pass.length,
          .keys = pass.length,
          .heads = settings_.heads,
          .key_heads = settings_.key_heads,
          .head_size = settings_.head_size,
          .scale = 1 / std::sqrt(static_cast<double>(settings_.head_size)),
          .key_begin = static_cast<const std::int32_t*>(key_begin_.data),
          .key_end = static_cast<const std::int32_t*>(key_end_.data)};
}

Tensor Attention::attend(Pass& pass, const kernels::AttentionShape& shape, const kernels::Dropout& dropout,
                         const Tensor& q, const Tensor& k, const Tensor& v, bool saves) {
  const std::int64_t wide = settings_.heads * settings_.head_size, narrow = settings_.key_heads * settings_.head_size;
  const Tensor out = pass.walk.make("attention", {pass.tokens(), wide});
  if (saves) lse_ = pass.walk.make_statistic("lse", {pass.sequences, settings_.heads, pass.length});
  pass.walk.run(pass.backend().attention_forward, kernels::AttentionForward{.shape = shape,
                                                                            .q = q.data,
                                                                            .ldq = wide,
                                                                            .k = k.data,
                                                                            .ldk = narrow,
                                                                            .v = v.data,
                                                                            .ldv = narrow,
                                                                            .dropout = dropout,
                                                                            .out = out.data,
                                                                            .ld_out = wide,
                                                                            .lse = saves ? lse_.data : nullptr});
  return out;
}

Value Attention::forward(Pass& pass, Tensor q, Tensor k, Tensor v, const Tensor& key_begin, const Tensor& key_end) {
  key_begin_ = key_begin, key_end_ = key_end;
  const kernels::Dropout dropout = pass.dropout(settings_.dropout, site_, pass.length);
  const Value out{attend(pass, shape(pass), dropout, q, k, v, pass.policy.saves()), nullptr};
  pass.policy.take(pass.walk, q, Use::value, q_);
  pass.policy.take(pass.walk, k, Use::value, k_);
  pass.policy.take(pass.walk, v, Use::value, v_);
  pass.policy.save(pass.walk, out, Use::value, out_);
  if (pass.policy.saves() && !scores_are_exact()) pass.walk.drop(lse_);
  return out;
}

Value Attention::forward_cached(Pass& pass, Tensor q, const Tensor& keys, const Tensor& values, const Tensor& key_begin,
                                const Tensor& key_end) {
  key_begin_ = key_begin, key_end_ = key_end;
  kernels::AttentionShape cached = shape(pass);
  cached.keys = keys.shape[0] / pass.sequences;
  const Value out{attend(pass, cached, {}, q, keys, values, false), nullptr};
  pass.walk.drop(q);
  return out;
}

// Probabilities are computed again from the scores and their log-sum-exp. With that of the exact scores those of
// restored ones would be no distribution, and above 1 by the exponential of a score's error.
bool Attention::scores_are_exact() const { return q_->exact() && k_->exact(); }

void Attention::backward(Pass& pass, Tensor d_out, Tensor& dq, Tensor& dk, Tensor& dv) {
  Walk& walk = pass.walk;
  const std::int64_t wide = settings_.heads * settings_.head_size, narrow = settings_.key_heads * settings_.head_size;
  const bool exact = scores_are_exact();
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
                                      .lse = exact ? lse_.data : nullptr,
                                      .d_out = d_out.data,
                                      .dq = dq.data,
                                      .dk = dk.data,
                                      .dv = dv.data});
  for (Tensor* tensor : {&q, &k, &v, &out, &d_out}) walk.drop(*tensor);
  if (exact) walk.drop(lse_);
}

}  // namespace comera::layers
