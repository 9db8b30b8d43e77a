#include "lib/layers/attention.h"

#include <cmath>

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

kernels::AttentionBackward Attention::gradients_of(Pass& pass, const Inputs& gradients, const Tensor& d_out) const {
  return {.shape = shape(pass),
          .ldq = gradients.q.ld,
          .ldk = gradients.k.ld,
          .ldv = gradients.v.ld,
          .dropout = pass.dropout(settings_.dropout, site_, pass.length),
          .ld_out = wide(),
          .d_out = d_out.data,
          .dq = gradients.q.data,
          .dk = gradients.k.data,
          .dv = gradients.v.data,
          .d_bias = settings_.bias ? settings_.bias->gradient() : nullptr};
}

void Attention::differentiate(Pass& pass, const Inputs& inputs, const Inputs& gradients, Tensor d_out, bool exact) {
  Walk& walk = pass.walk;
  Tensor out = out_->value(walk);
  kernels::AttentionBackward call = gradients_of(pass, gradients, d_out);
  call.q = inputs.q.data, call.k = inputs.k.data, call.v = inputs.v.data, call.out = out.data;
  call.lse = exact ? lse_.data : nullptr;
  walk.run(pass.backend().attention_backward, call);
  walk.drop(out);
  walk.drop(d_out);
  if (exact) walk.drop(lse_);
}

std::optional<kernels::CodedAttentionBackward> Attention::coded_call(Pass& pass, const Slot& k, std::int64_t k_column,
                                                                     const Slot& v, std::int64_t v_column) const {
  const auto q = q_->coded(), keys = k->coded(), values = v->coded(), out = out_->coded();
  if (pass.backend().coded_attention_backward.run == nullptr || !q || !keys || !values || !out) return std::nullopt;
  kernels::CodedAttentionBackward call{
      .attention = {}, .q = {*q}, .k = {*keys, k_column}, .v = {*values, v_column}, .out = {*out}};
  call.attention.shape = shape(pass);
  if (!kernels::fits(call)) return std::nullopt;
  return call;
}

void Attention::differentiate_coded(Pass& pass, kernels::CodedAttentionBackward& call, const Inputs& gradients,
                                    Tensor d_out) {
  call.attention = gradients_of(pass, gradients, d_out);
  pass.walk.run(pass.backend().coded_attention_backward, call);
  out_->release(pass.walk);
  pass.walk.drop(d_out);
}

void Attention::backward(Pass& pass, Tensor d_out, Tensor& dq, Tensor& dk, Tensor& dv) {
  Walk& walk = pass.walk;
  const auto make_gradients = [&] {
    dq = walk.make("dq", {pass.tokens(), wide()});
    dk = walk.make("dk", {pass.tokens(), narrow()});
    dv = walk.make("dv", {pass.tokens(), narrow()});
  };
  if (auto coded = coded_call(pass, k_, 0, v_, 0)) {
    make_gradients();
    differentiate_coded(pass, *coded, apart(dq, dk, dv), d_out);
    for (const Slot* slot : {&q_, &k_, &v_}) (*slot)->release(walk);
    return;
  }
  const bool exact = q_->exact() && k_->exact();
  Tensor q = q_->value(walk), k = k_->value(walk), v = v_->value(walk);
  make_gradients();
  differentiate(pass, apart(q, k, v), apart(dq, dk, dv), d_out, exact);
  for (Tensor* tensor : {&q, &k, &v}) walk.drop(*tensor);
}

Tensor Attention::backward_joined(Pass& pass, Tensor d_out) {
  Walk& walk = pass.walk;
  const auto make_gradient = [&] { return walk.make("d_qkv", {pass.tokens(), wide() + 2 * narrow()}); };
  if (auto coded = coded_call(pass, q_, wide(), q_, wide() + narrow())) {
    const Tensor d_qkv = make_gradient();
    differentiate_coded(pass, *coded, joined(d_qkv), d_out);
    q_->release(walk);
    return d_qkv;
  }
  const bool exact = q_->exact();
  Tensor qkv = q_->value(walk);
  const Tensor d_qkv = make_gradient();
  differentiate(pass, joined(qkv), joined(d_qkv), d_out, exact);
  walk.drop(qkv);
  return d_qkv;
}

}  // namespace comera::layers
