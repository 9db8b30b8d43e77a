#include "lib/layers/attention.h"

#include <cmath>

#include "kernels/attention.h"
#include "lib/layers/relative_bias.h"

namespace comera::layers {

kernels::AttentionShape Attention::shape(const Pass& pass) const {
  kernels::AttentionShape shape{.batch = pass.sequences,
                                .queries = pass.length,
                                .keys = pass.length,
                                .heads = settings_.heads,
                                .key_heads = settings_.key_heads,
                                .head_size = settings_.head_size,
                                .scale = 1 / std::sqrt(static_cast<double>(settings_.head_size)),
                                .key_begin = static_cast<const std::int32_t*>(key_begin_.data),
                                .key_end = static_cast<const std::int32_t*>(key_end_.data)};
  if (settings_.bias) settings_.bias->describe(pass.walk, shape);
  return shape;
}

Attention::Inputs Attention::apart(const Tensor& q, const Tensor& k, const Tensor& v) const {
  return {{q.data, wide()}, {k.data, narrow()}, {v.data, narrow()}};
}

Attention::Inputs Attention::joined(const Tensor& qkv) const {
  const std::int64_t ld = wide() + 2 * narrow();
  const auto at = [&](std::int64_t column) {
    return Rows{static_cast<std::byte*>(qkv.data) + static_cast<std::size_t>(column) * size_of(qkv.dtype), ld};
  };
  // While memory is planned there is none.
  if (!qkv.data) return {{nullptr, ld}, {nullptr, ld}, {nullptr, ld}};
  return {at(0), at(wide()), at(wide() + narrow())};
}

Tensor Attention::attend(Pass& pass, const kernels::AttentionShape& shape, const kernels::Dropout& dropout,
                         const Inputs& inputs, bool saves) {
  const Tensor out = pass.walk.make("attention", {pass.tokens(), wide()});
  if (saves) lse_ = pass.walk.make_statistic("lse", {pass.sequences, settings_.heads, pass.length});
  pass.walk.run(pass.backend().attention_forward, kernels::AttentionForward{.shape = shape,
                                                                            .q = inputs.q.data,
                                                                            .ldq = inputs.q.ld,
                                                                            .k = inputs.k.data,
                                                                            .ldk = inputs.k.ld,
                                                                            .v = inputs.v.data,
                                                                            .ldv = inputs.v.ld,
                                                                            .dropout = dropout,
                                                                            .out = out.data,
                                                                            .ld_out = wide(),
                                                                            .lse = saves ? lse_.data : nullptr});
  return out;
}

// Probabilities are computed again from the scores and their log-sum-exp. With that of the exact scores those of
// restored ones would be no distribution, and above 1 by the exponential of a score's error.
void Attention::keep_output(Pass& pass, const Value& out, bool exact) {
  pass.policy.save(pass.walk, out, Use::value, out_);
  if (pass.policy.saves() && !exact) pass.walk.drop(lse_);
}

Value Attention::forward(Pass& pass, Tensor q, Tensor k, Tensor v, const Tensor& key_begin, const Tensor& key_end) {
  key_begin_ = key_begin, key_end_ = key_end;
  const kernels::Dropout dropout = pass.dropout(settings_.dropout, site_, pass.length);
  const Value out{attend(pass, shape(pass), dropout, apart(q, k, v), pass.policy.saves()), nullptr};
  pass.policy.take(pass.walk, q, Use::value, q_);
  pass.policy.take(pass.walk, k, Use::value, k_);
  pass.policy.take(pass.walk, v, Use::value, v_);
  keep_output(pass, out, pass.policy.saves() && q_->exact() && k_->exact());
  return out;
}

Value Attention::forward_joined(Pass& pass, Tensor qkv, const Tensor& key_begin, const Tensor& key_end) {
  key_begin_ = key_begin, key_end_ = key_end;
  const kernels::Dropout dropout = pass.dropout(settings_.dropout, site_, pass.length);
  const Value out{attend(pass, shape(pass), dropout, joined(qkv), pass.policy.saves()), nullptr};
  pass.policy.take(pass.walk, qkv, Use::value, q_);
  keep_output(pass, out, pass.policy.saves() && q_->exact());
  return out;
}

Value Attention::forward_cached(Pass& pass, Tensor q, const Tensor& keys, const Tensor& values, const Tensor& key_begin,
                                const Tensor& key_end) {
  key_begin_ = key_begin, key_end_ = key_end;
  kernels::AttentionShape cached = shape(pass);
  cached.keys = keys.shape[0] / pass.sequences;
  Inputs inputs = apart(q, keys, values);
  inputs.q.ld = q.elements() / pass.tokens();
  const Value out{attend(pass, cached, {}, inputs, false), nullptr};
  pass.walk.drop(q);
  return out;
}

void Attention::differentiate(Pass& pass, const Inputs& inputs, const Inputs& gradients, Tensor d_out, bool exact) {
  Walk& walk = pass.walk;
  Tensor out = out_->value(walk);
  walk.run(pass.backend().attention_backward,
           kernels::AttentionBackward{.shape = shape(pass),
                                      .q = inputs.q.data,
                                      .ldq = inputs.q.ld,
                                      .k = inputs.k.data,
                                      .ldk = inputs.k.ld,
                                      .v = inputs.v.data,
                                      .ldv = inputs.v.ld,
                                      .dropout = pass.dropout(settings_.dropout, site_, pass.length),
                                      .out = out.data,
                                      .ld_out = wide(),
                                      .lse = exact ? lse_.data : nullptr,
                                      .d_out = d_out.data,
                                      .dq = gradients.q.data,
                                      .dk = gradients.k.data,
                                      .dv = gradients.v.data,
                                      .d_bias = settings_.bias ? settings_.bias->gradient() : nullptr});
  walk.drop(out);
  walk.drop(d_out);
  if (exact) walk.drop(lse_);
}

void Attention::backward(Pass& pass, Tensor d_out, Tensor& dq, Tensor& dk, Tensor& dv) {
  Walk& walk = pass.walk;
  const bool exact = q_->exact() && k_->exact();
  Tensor q = q_->value(walk), k = k_->value(walk), v = v_->value(walk);
  dq = walk.make("dq", q.shape);
  dk = walk.make("dk", k.shape);
  dv = walk.make("dv", v.shape);
  differentiate(pass, apart(q, k, v), apart(dq, dk, dv), d_out, exact);
  for (Tensor* tensor : {&q, &k, &v}) walk.drop(*tensor);
}

Tensor Attention::backward_joined(Pass& pass, Tensor d_out) {
  Walk& walk = pass.walk;
  const bool exact = q_->exact();
  Tensor qkv = q_->value(walk);
  const Tensor d_qkv = walk.make("d_qkv", qkv.shape);
  differentiate(pass, joined(qkv), joined(d_qkv), d_out, exact);
  walk.drop(qkv);
  return d_qkv;
}

}  // namespace comera::layers
