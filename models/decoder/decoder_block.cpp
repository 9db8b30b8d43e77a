#include "models/decoder/decoder_block.h"

namespace comera::models {
namespace {

using kernels::Activation;
using layers::Place;
using Names = DecoderNames;

struct Part {
  const char* name;
  std::int64_t out;
  bool bias;
};

LinearSet linears(Builder& builder, const DecoderSpec& spec, std::int64_t index, std::int64_t in,
                  const std::vector<Part>& parts, Place place = Place::block) {
  std::vector<layers::LinearSpec> specs;
  for (const Part& part : parts) {
    specs.push_back(spec.linear(Names::layer(index, part.name), part.out));
    specs.back().bias = part.bias;
    specs.back().place = place;
  }
  return LinearSet::make(builder, specs, in, Activation::none);
}

std::vector<Part> attention_inputs(const DecoderSpec& spec) {
  const std::int64_t narrow = spec.key_heads * spec.head_size;
  return {{Names::query, spec.heads * spec.head_size, spec.qkv_bias},
          {Names::key, narrow, spec.qkv_bias},
          {Names::value, narrow, spec.qkv_bias}};
}

// The last norm of a block is the first norm of the next block.
std::string output_norm_name(const DecoderSpec& spec, std::int64_t index) {
  return index + 1 < spec.layers ? Names::layer(index + 1, Names::first_norm) : Names::final_norm;
}

}  // namespace

DecoderBlock::DecoderBlock(Builder& builder, const DecoderSpec& spec, std::int64_t index, const SharedByBlocks& shared)
    : shared_(shared),
      index_(index),
      wide_(spec.heads * spec.head_size),
      intermediate_(spec.intermediate),
      near_(has_window(spec, index)),
      qkv_(linears(builder, spec, index, spec.hidden, attention_inputs(spec))),
      attention_(builder, Names::layer(index, "self_attn"),
                 {spec.heads, spec.key_heads, spec.head_size, spec.attention_dropout}),
      projection_(linears(builder, spec, index, wide_, {{Names::output, spec.hidden, spec.output_bias}},
                          Place::attention_output)),
      middle_(builder, Names::layer(index, Names::middle_norm), spec.hidden,
              {kernels::NormKind::rms, spec.epsilon, 0, 0}),
      gate_up_(
          linears(builder, spec, index, spec.hidden,
                  {{Names::gate, spec.intermediate, spec.mlp_bias}, {Names::up, spec.intermediate, spec.mlp_bias}})),
      gated_(Names::layer(index, "mlp"), Activation::silu),
      down_(linears(builder, spec, index, spec.intermediate, {{Names::down, spec.hidden, spec.mlp_bias}})),
      output_(builder, output_norm_name(spec, index), spec.hidden, {kernels::NormKind::rms, spec.epsilon, 0, 0}) {
  if (!spec.head_norms) return;
  layers::ResidualNorm::Settings settings{kernels::NormKind::rms, spec.epsilon, 0, 0};
  settings.output_changes = true;
  for (int i = 0; i < 2; ++i)
    head_norms_[i].emplace(builder, Names::layer(index, i == 0 ? Names::query_norm : Names::key_norm), spec.head_size,
                           settings);
}

void DecoderBlock::turn(Pass& pass, Tensor* qk) {
  for (int i = 0; i < 2; ++i) {
    if (head_norms_[i]) {
      const auto shape = qk[i].shape;
      qk[i] = head_norms_[i]->forward(pass, qk[i], Tensor{}).tensor;
      qk[i].shape = shape;
    }
    shared_.rotary.turn(pass, qk[i], false);
  }
}

void DecoderBlock::turn_back(Pass& pass, Sink& sink, Tensor* d_qk) {
  for (int i = 0; i < 2; ++i) {
    shared_.rotary.turn(pass, d_qk[i], true);
    if (head_norms_[i]) d_qk[i] = head_norms_[i]->backward(pass, sink, d_qk[i], Tensor{}, nullptr);
  }
}

Value DecoderBlock::attend(Pass& pass, Tensor* qkv, const KeyRanges& keys) {
  turn(pass, qkv);
  const Tensor& begin = near_ ? keys.near_begin : keys.begin;
  if (!shared_.cache) return attention_.forward(pass, qkv[0], qkv[1], qkv[2], begin, keys.end);
  shared_.cache->store(pass, index_, shared_.cache_rows, qkv[1], qkv[2]);
  pass.walk.drop(qkv[1]);
  pass.walk.drop(qkv[2]);
  return attention_.forward_cached(pass, qkv[0], shared_.cache->keys(index_), shared_.cache->values(index_), begin,
                                   keys.end);
}

Tensor DecoderBlock::attention_branch(Pass& pass, Value x, const KeyRanges& keys) {
  Tensor qkv[3];
  qkv_.forward(pass, x, qkv);
  pass.walk.drop(x.tensor);
  Value heads = attend(pass, qkv, keys);
  Tensor y;
  projection_.forward(pass, heads, &y);
  pass.walk.drop(heads.tensor);
  return y;
}

Tensor DecoderBlock::feed_forward(Pass& pass, Value x) {
  Tensor gate_up[2];
  gate_up_.forward(pass, x, gate_up);
  pass.walk.drop(x.tensor);
  Value gated = gated_.forward(pass, gate_up[0], gate_up[1]);
  Tensor y;
  down_.forward(pass, gated, &y);
  pass.walk.drop(gated.tensor);
  return y;
}

Flow DecoderBlock::forward(Pass& pass, Flow in, const KeyRanges& keys) {
  Flow middle, out;
  middle.normed = middle_.forward(pass, attention_branch(pass, in.normed, keys), in.residual, &middle.residual);
  pass.walk.drop(in.residual);
  out.normed = output_.forward(pass, feed_forward(pass, middle.normed), middle.residual, &out.residual);
  pass.walk.drop(middle.residual);
  return out;
}

void DecoderBlock::attention_backward(Pass& pass, Sink& sink, Tensor d, const Tensor& dx) {
  Tensor d_heads = pass.walk.make("d_heads", {pass.tokens(), wide_});
  projection_.backward(pass, sink, &d, d_heads, false);
  Tensor d_qkv[3];
  attention_.backward(pass, d_heads, d_qkv[0], d_qkv[1], d_qkv[2]);
  turn_back(pass, sink, d_qkv);
  qkv_.backward(pass, sink, d_qkv, dx, false);
}

void DecoderBlock::feed_forward_backward(Pass& pass, Sink& sink, Tensor d, const Tensor& dx) {
  Tensor d_gated = down_.backward_replacing(pass, sink, d, intermediate_);
  Tensor d_gate_up[2];
  gated_.backward(pass, d_gated, d_gate_up[0], d_gate_up[1]);
  gate_up_.backward(pass, sink, d_gate_up, dx, false);
}

FlowGradient DecoderBlock::backward(Pass& pass, Sink& sink, FlowGradient d) {
  Tensor d_fed, d_attended;
  Tensor d_residual = output_.backward(pass, sink, d.normed, d.residual, &d_fed);
  Tensor d_normed = pass.walk.make("d_normed", d_residual.shape);
  feed_forward_backward(pass, sink, d_fed, d_normed);
  d_residual = middle_.backward(pass, sink, d_normed, d_residual, &d_attended);
  d_normed = pass.walk.make("d_normed", d_residual.shape);
  attention_backward(pass, sink, d_attended, d_normed);
  return {d_normed, d_residual};
}

}  // namespace comera::models
