#include "models/encoder/encoder_block.h"

namespace comera::models {
namespace {

using kernels::Activation;
using layers::Place;

std::string output_norm_name(const EncoderSpec& spec, const EncoderNames& names, std::int64_t index) {
  if (!spec.pre_norm) return names.layer(index, names.output_norm);
  return index + 1 < spec.layers ? names.layer(index + 1, names.output_norm) : names.final_norm;
}

layers::LinearSpec linear_of_block(const EncoderSpec& spec, const std::string& name, std::int64_t out,
                                   Place place = Place::block) {
  layers::LinearSpec linear = spec.linear(name, out);
  linear.place = place;
  return linear;
}

// `biased`: in ModernBERT; other families have biases everywhere.
LinearSet linear(Builder& builder, const EncoderSpec& spec, const std::string& name, std::int64_t in, std::int64_t out,
                 Activation activation, bool biased, Place place = Place::block) {
  layers::LinearSpec one = linear_of_block(spec, name, out, place);
  one.bias = biased || !is_modern(spec);
  return LinearSet::make(builder, {one}, in, activation);
}

LinearSet query_key_value(Builder& builder, const EncoderSpec& spec, const EncoderNames& names, std::int64_t index) {
  if (names.qkv)
    return linear(builder, spec, names.layer(index, names.qkv), spec.hidden, 3 * spec.hidden, Activation::none,
                  spec.modern.attention_bias);
  std::vector<layers::LinearSpec> specs;
  for (const char* part : {names.query, names.key, names.value})
    specs.push_back(linear_of_block(spec, names.layer(index, part), spec.hidden));
  return LinearSet::make(builder, specs, spec.hidden, Activation::none);
}

// DistilBERT has no dropout behind the attention; ModernBERT has that of the probabilities there, and none behind the
// feed-forward.
double attention_branch_dropout(const EncoderSpec& spec) {
  if (is_modern(spec)) return spec.attention_dropout;
  return spec.family == EncoderFamily::distilbert ? 0 : spec.dropout;
}
double feed_forward_dropout(const EncoderSpec& spec) { return is_modern(spec) ? 0 : spec.dropout; }

}  // namespace

layers::ResidualNorm::Settings norm_settings(const EncoderSpec& spec, double dropout, double output_dropout) {
  layers::ResidualNorm::Settings settings{kernels::NormKind::layer, spec.epsilon, dropout, output_dropout};
  settings.shift = norms_have_shifts(spec);
  return settings;
}

EncoderBlock::EncoderBlock(Builder& builder, const EncoderSpec& spec, std::int64_t index, EncoderShared& shared)
    : pre_norm_(spec.pre_norm),
      near_(has_window(spec, index)),
      hidden_(spec.hidden),
      intermediate_(spec.intermediate),
      heads_(spec.heads),
      rotary_(shared.rotary(near_)),
      qkv_(query_key_value(builder, spec, EncoderNames(spec), index)),
      attention_(builder, EncoderNames(spec).layer(index, EncoderNames(spec).attention),
                 {spec.heads, spec.heads, spec.hidden / spec.heads, spec.attention_dropout, shared.bias()}),
      projection_(linear(builder, spec, EncoderNames(spec).layer(index, EncoderNames(spec).attention_output),
                         spec.hidden, spec.hidden, Activation::none, spec.modern.attention_bias,
                         Place::attention_output)),
      middle_(builder, EncoderNames(spec).layer(index, EncoderNames(spec).middle_norm), spec.hidden,
              norm_settings(spec, attention_branch_dropout(spec))),
      up_(linear(builder, spec, EncoderNames(spec).layer(index, EncoderNames(spec).up), spec.hidden,
                 is_modern(spec) ? 2 * spec.intermediate : spec.intermediate,
                 is_modern(spec) ? Activation::none : Activation::gelu, spec.modern.mlp_bias)),
      down_(linear(builder, spec, EncoderNames(spec).layer(index, EncoderNames(spec).down), spec.intermediate,
                   spec.hidden, Activation::none, spec.modern.mlp_bias)),
      output_(builder, output_norm_name(spec, EncoderNames(spec), index), spec.hidden,
              norm_settings(spec, feed_forward_dropout(spec))) {
  if (is_modern(spec)) gated_.emplace(EncoderNames(spec).layer(index, "mlp"), Activation::gelu);
}

Value EncoderBlock::mix(Pass& pass, Value x, const Tensor& begin, const Tensor& end) {
  Tensor qkv[3];
  qkv_.forward(pass, x, qkv);
  pass.walk.drop(x.tensor);
  if (!rotary_) return attention_.forward(pass, qkv[0], qkv[1], qkv[2], begin, end);
  rotary_->turn_first(pass, qkv[0], 2 * heads_, false);
  return attention_.forward_joined(pass, qkv[0], begin, end);
}

Tensor EncoderBlock::attend(Pass& pass, Value x, const KeyRanges& keys) {
  Value heads = near_ ? mix(pass, x, keys.near_begin, keys.near_end) : mix(pass, x, keys.begin, keys.end);
  Tensor y;
  projection_.forward(pass, heads, &y);
  pass.walk.drop(heads.tensor);
  return y;
}

Tensor EncoderBlock::feed_forward(Pass& pass, Value x) {
  Value hidden;
  up_.forward(pass, x, &hidden.tensor);
  pass.walk.drop(x.tensor);
  hidden.producer = up_.producer();
  if (gated_) hidden = gated_->forward_joined(pass, hidden.tensor);
  Tensor y;
  down_.forward(pass, hidden, &y);
  pass.walk.drop(hidden.tensor);
  return y;
}

// Post-LN: the input of a branch is its residual too.
Tensor EncoderBlock::residual_of(Pass& pass, const Flow& flow) const {
  return pre_norm_ ? flow.residual : pass.walk.keep(flow.normed.tensor);
}

Flow EncoderBlock::forward(Pass& pass, Flow in, const KeyRanges& keys) {
  Flow middle, out;
  Tensor residual = residual_of(pass, in);
  Tensor attended = attend(pass, in.normed, keys);
  middle.normed = middle_.forward(pass, attended, residual, pre_norm_ ? &middle.residual : nullptr);
  pass.walk.drop(residual);
  residual = residual_of(pass, middle);
  Tensor fed = feed_forward(pass, middle.normed);
  out.normed = output_.forward(pass, fed, residual, pre_norm_ ? &out.residual : nullptr);
  pass.walk.drop(residual);
  return out;
}

void EncoderBlock::attend_backward(Pass& pass, Sink& sink, Tensor d, const Tensor& dx, bool accumulate) {
  Tensor d_heads = pass.walk.make("d_heads", d.shape);
  projection_.backward(pass, sink, &d, d_heads, false);
  Tensor d_qkv[3];
  if (rotary_) {
    d_qkv[0] = attention_.backward_joined(pass, d_heads);
    rotary_->turn_first(pass, d_qkv[0], 2 * heads_, true);
  } else {
    attention_.backward(pass, d_heads, d_qkv[0], d_qkv[1], d_qkv[2]);
  }
  qkv_.backward(pass, sink, d_qkv, dx, accumulate);
}

void EncoderBlock::feed_forward_backward(Pass& pass, Sink& sink, Tensor d, const Tensor& dx, bool accumulate) {
  Tensor d_hidden = down_.backward_replacing(pass, sink, d, intermediate_);
  if (gated_) d_hidden = gated_->backward_joined(pass, d_hidden);
  up_.backward(pass, sink, &d_hidden, dx, accumulate);
}

// Post-LN: the residual path and the branch share one gradient of the norm's output, so the branch adds to it in
// place.
FlowGradient EncoderBlock::backward(Pass& pass, Sink& sink, FlowGradient d) {
  Walk& walk = pass.walk;
  Tensor d_fed, d_attended;
  Tensor d_residual = output_.backward(pass, sink, d.normed, d.residual, &d_fed);
  Tensor d_normed = pre_norm_ ? walk.make("d_normed", d_residual.shape) : d_residual;
  feed_forward_backward(pass, sink, d_fed, d_normed, !pre_norm_);
  d_residual = middle_.backward(pass, sink, d_normed, pre_norm_ ? d_residual : Tensor{}, &d_attended);
  d_normed = pre_norm_ ? walk.make("d_normed", d_residual.shape) : d_residual;
  attend_backward(pass, sink, d_attended, d_normed, !pre_norm_);
  return {d_normed, pre_norm_ ? d_residual : Tensor{}};
}

}  // namespace comera::models
