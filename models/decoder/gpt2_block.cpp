#include "models/decoder/gpt2_block.h"

namespace comera::models {
namespace {

using kernels::Activation;
using layers::Place;

LinearSet linear(Builder& builder, const DecoderSpec& spec, const std::string& name, std::int64_t in, std::int64_t out,
                 Activation activation = Activation::none, Place place = Place::block) {
  layers::LinearSpec one = spec.linear(name, out);
  one.place = place;
  one.conv1d = true;
  return LinearSet::make(builder, {one}, in, activation);
}

layers::ResidualNorm::Settings norm_settings(const DecoderSpec& spec) {
  return {kernels::NormKind::layer, spec.epsilon, spec.dropout, 0};
}

// The last norm of a block is the first norm of the next block.
std::string output_norm_name(const DecoderSpec& spec, const Gpt2Names& names, std::int64_t index) {
  return index + 1 < spec.layers ? names.layer(index + 1, Gpt2Names::first_norm) : names.final_norm;
}

}  // namespace

Gpt2Block::Gpt2Block(Builder& builder, const DecoderSpec& spec, std::int64_t index, const SharedByBlocks& shared)
    : shared_(shared),
      index_(index),
      hidden_(spec.hidden),
      intermediate_(spec.intermediate),
      qkv_(linear(builder, spec, Gpt2Names(spec).layer(index, Gpt2Names::qkv), spec.hidden, 3 * spec.hidden)),
      attention_(builder, Gpt2Names(spec).layer(index, Gpt2Names::attention),
                 {spec.heads, spec.heads, spec.head_size, spec.attention_dropout}),
      projection_(linear(builder, spec, Gpt2Names(spec).layer(index, Gpt2Names::output), spec.hidden, spec.hidden,
                         Activation::none, Place::attention_output)),
      middle_(builder, Gpt2Names(spec).layer(index, Gpt2Names::middle_norm), spec.hidden, norm_settings(spec)),
      up_(linear(builder, spec, Gpt2Names(spec).layer(index, Gpt2Names::up), spec.hidden, spec.intermediate,
                 Activation::gelu_tanh)),
      down_(linear(builder, spec, Gpt2Names(spec).layer(index, Gpt2Names::down), spec.intermediate, spec.hidden)),
      output_(builder, output_norm_name(spec, Gpt2Names(spec), index), spec.hidden, norm_settings(spec)) {}

Value Gpt2Block::attend(Pass& pass, Tensor qkv, const KeyRanges& keys) {
  if (!shared_.cache) return attention_.forward_joined(pass, qkv, keys.begin, keys.end);
  shared_.cache->store_joined(pass, index_, shared_.cache_rows, qkv);
  return attention_.forward_cached(pass, qkv, shared_.cache->keys(index_), shared_.cache->values(index_), keys.begin,
                                   keys.end);
}

Tensor Gpt2Block::attention_branch(Pass& pass, Value x, const KeyRanges& keys) {
  Tensor qkv, y;
  qkv_.forward(pass, x, &qkv);
  pass.walk.drop(x.tensor);
  Value heads = attend(pass, qkv, keys);
  projection_.forward(pass, heads, &y);
  pass.walk.drop(heads.tensor);
  return y;
}

Tensor Gpt2Block::feed_forward(Pass& pass, Value x) {
  Value wide;
  up_.forward(pass, x, &wide.tensor);
  pass.walk.drop(x.tensor);
  wide.producer = up_.producer();
  Tensor y;
  down_.forward(pass, wide, &y);
  pass.walk.drop(wide.tensor);
  return y;
}

Flow Gpt2Block::forward(Pass& pass, Flow in, const KeyRanges& keys) {
  Flow middle, out;
  middle.normed = middle_.forward(pass, attention_branch(pass, in.normed, keys), in.residual, &middle.residual);
  pass.walk.drop(in.residual);
  out.normed = output_.forward(pass, feed_forward(pass, middle.normed), middle.residual, &out.residual);
  pass.walk.drop(middle.residual);
  return out;
}

FlowGradient Gpt2Block::backward(Pass& pass, Sink& sink, FlowGradient d) {
  Walk& walk = pass.walk;
  Tensor d_fed, d_attended;
  Tensor d_residual = output_.backward(pass, sink, d.normed, d.residual, &d_fed);
  Tensor d_normed = walk.make("d_normed", d_residual.shape);
  Tensor d_wide = down_.backward_replacing(pass, sink, d_fed, intermediate_);
  up_.backward(pass, sink, &d_wide, d_normed, false);
  d_residual = middle_.backward(pass, sink, d_normed, d_residual, &d_attended);
  Tensor d_heads = walk.make("d_heads", {pass.tokens(), hidden_});
  projection_.backward(pass, sink, &d_attended, d_heads, false);
  Tensor d_qkv = attention_.backward_joined(pass, d_heads);
  d_normed = walk.make("d_normed", d_residual.shape);
  qkv_.backward(pass, sink, &d_qkv, d_normed, false);
  return {d_normed, d_residual};
}

}  // namespace comera::models
