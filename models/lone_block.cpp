#include "models/lone_block.h"

#include <algorithm>
#include <optional>
#include <stdexcept>

#include "kernels/distillation.h"
#include "kernels/elementwise.h"
#include "lib/core/error.h"
#include "models/decoder/decoder_block.h"
#include "models/decoder/gpt2_block.h"
#include "models/encoder/encoder_block.h"
#include "models/planning.h"

namespace comera::models {
namespace {

using layers::Outputs;
using layers::SavePolicy;

// The parts of a model that the architecture decides.
struct BlockParts {
  bool pre_norm = true;                            // the blocks add to a residual stream
  std::optional<layers::ResidualNorm> first_norm;  // none for post-LN and a block that reads the stream
  std::unique_ptr<SharedByBlocks> shared;          // of decoders
  std::unique_ptr<EncoderShared> encoder;          // of encoders
  std::unique_ptr<Block> block;
  bool causal = false;
  bool turns = false;       // rotates queries and keys
  std::int64_t window = 0;  // of attention in some blocks; 0: none
};

BlockParts parts_of(Builder& builder, const DecoderSpec& spec, std::int64_t number) {
  BlockParts parts;
  const bool gpt2 = spec.family == DecoderFamily::gpt2;
  parts.causal = true;
  parts.turns = has_rotary(spec);
  parts.window = spec.window;
  parts.first_norm.emplace(
      builder,
      gpt2 ? Gpt2Names(spec).layer(number, Gpt2Names::first_norm)
           : DecoderNames::layer(number, DecoderNames::first_norm),
      spec.hidden,
      layers::ResidualNorm::Settings{gpt2 ? kernels::NormKind::layer : kernels::NormKind::rms, spec.epsilon, 0, 0});
  parts.shared = std::make_unique<SharedByBlocks>(SharedByBlocks{
      layers::Rotary(spec.head_size, rotary_angles(spec.theta, spec.head_size, spec.scaling)), nullptr, {}});
  parts.block = gpt2 ? std::unique_ptr<Block>(std::make_unique<Gpt2Block>(builder, spec, number, *parts.shared))
                     : std::make_unique<DecoderBlock>(builder, spec, number, *parts.shared);
  return parts;
}

BlockParts parts_of(Builder& builder, const EncoderSpec& spec, std::int64_t number) {
  BlockParts parts;
  const EncoderNames names(spec);
  parts.pre_norm = spec.pre_norm;
  if (norms_input(spec, number))
    parts.first_norm.emplace(builder, names.layer(number, names.output_norm), spec.hidden, norm_settings(spec, 0));
  parts.encoder = std::make_unique<EncoderShared>(builder, spec);
  parts.block = std::make_unique<EncoderBlock>(builder, spec, number, *parts.encoder);
  return parts;
}

BlockParts parts_of(Builder&, const DlrmSpec&, std::int64_t) {
  fail_input("[model] a DLRM has no blocks of attention that could be trained alone; leave out --refine");
}

BlockParts parts_of(Builder&, const VitSpec&, std::int64_t) {
  fail_input("[model] blocks of a vision transformer are not refined alone; leave out --refine");
}

class LoneBlock final : public layers::Model {
 public:
  LoneBlock(const ModelSpec& spec, std::int64_t number, DType dtype)
      : Model(dtype),
        common_(common(spec)),
        merger_(chains_, factors_, step_gradients_),
        builder_{.dtype = dtype,
                 .parameters = parameters_,
                 .chains = chains_,
                 .factors = factors_,
                 .step_gradients = step_gradients_,
                 .merger = merger_,
                 .cast_weights = cast_weights_,
                 .threshold = threshold_,
                 .parameters_dense = parameters_dense_,
                 .brief_factors = true},
        parts_(std::visit([&](const auto& one) { return parts_of(builder_, one, number); }, spec)) {
    set_threshold(common_.threshold);
  }

  void declare_constants(plan::Inputs& inputs) override { merger_.declare(inputs); }

  void declare(const data::Batch& batch, plan::Inputs& inputs) override {
    const auto lengths = batch["lengths"].as<const std::int32_t>();
    const auto tokens = static_cast<std::size_t>(batch.sequences * batch.length);
    for (auto* rows : {&key_end_host_, &near_begin_host_, &positions_host_, &counted_host_}) rows->resize(tokens);
    for (std::size_t k = 0; k < tokens; ++k) {
      const auto t = static_cast<std::int32_t>(static_cast<std::int64_t>(k) % batch.length);
      const std::int32_t length = lengths[k / static_cast<std::size_t>(batch.length)];
      counted_host_[k] = t < length;
      positions_host_[k] = t;
      key_end_host_[k] = !parts_.causal ? length : t < length ? t + 1 : 0;
      near_begin_host_[k] = std::max(0, key_end_host_[k] - static_cast<std::int32_t>(parts_.window));
    }
    inputs.add(batch["samples"], samples_);
    inputs.add({key_end_host_.data(), DType::i32, {batch.sequences, batch.length}}, keys_.end);
    if (parts_.window > 0)
      inputs.add({near_begin_host_.data(), DType::i32, {batch.sequences, batch.length}}, keys_.near_begin);
    if (parts_.encoder) parts_.encoder->declare(batch, inputs, keys_);
    inputs.add(positions_host_, positions_);
    inputs.add(counted_host_, counted_);
    inputs.add(batch[block_input], input_);
    inputs.add(batch[block_target], target_);
  }

  data::Batch planning_batch(std::int64_t sequences, std::int64_t length, double mask_probability) const override {
    data::Batch batch = models::planning_batch(common_, sequences, length, mask_probability);
    for (const char* name : {block_input, block_target})
      batch.add(name, builder_.dtype, {sequences * length, common_.hidden});
    return batch;
  }

  void prepare(Walk& walk) override {
    Walk::Scope scope(walk, "prepare");
    merger_.prepare(walk, threshold_);
    cast_weights_.prepare(walk);
  }

  Outputs forward(Walk& walk, const data::Batch& batch, const SavePolicy& policy) override {
    pass_.emplace(Pass{walk, policy, batch.sequences, batch.length, &state_->scalars,
                       static_cast<const std::int64_t*>(samples_.data), &distillation_});
    if (parts_.turns) parts_.shared->rotary.begin(*pass_, positions_, batch.length, {});
    if (parts_.encoder) parts_.encoder->begin(*pass_);
    Flow flow = parts_.block->forward(*pass_, enter(), keys_);
    Tensor& output = parts_.pre_norm ? flow.residual : flow.normed.tensor;
    measure(output);
    Outputs outputs;
    if (policy.saves()) {
      output_ = walk.keep(output);
    } else {
      outputs.hidden = walk.keep(output);
      if (parts_.pre_norm) outputs.embedding = walk.keep(flow.normed.tensor);
    }
    if (parts_.pre_norm) walk.drop(flow.residual);
    walk.drop(flow.normed.tensor);
    if (!policy.saves()) close();
    return outputs;
  }

  void backward(Walk& walk, Sink& sink) override {
    if (parts_.encoder) parts_.encoder->open(walk, sink);
    FlowGradient d = parts_.block->backward(*pass_, sink, gradient_of_loss());
    if (parts_.encoder) parts_.encoder->close(walk, sink);
    if (parts_.first_norm)
      d.normed = parts_.first_norm->backward(*pass_, sink, d.normed, d.residual, nullptr);
    else if (parts_.pre_norm)
      d.normed = sum_of(*pass_, d);
    walk.drop(d.normed);
    close();
  }

  void finish(Walk& walk, Sink& sink) override {
    Walk::Scope scope(walk, "finish");
    merger_.finish(walk, sink, threshold_);
  }

  std::string config_json() const override {
    throw std::logic_error("[models] a lone block has no config.json: it is a part of a model");
  }

 private:
  std::int64_t hidden() const { return common_.hidden; }

  // The block takes its input and may overwrite it, so it gets a copy.
  Flow enter() {
    Walk& walk = pass_->walk;
    Flow flow;
    flow.normed.tensor = walk.make("input", {pass_->tokens(), hidden()});
    walk.run(walk.backend().fill, kernels::Fill{flow.normed.tensor.data, flow.normed.tensor.bytes()});
    walk.run(walk.backend().add_scaled,
             kernels::AddScaled{flow.normed.tensor.elements(), 1, input_.data, flow.normed.tensor.data});
    if (parts_.first_norm)
      flow.normed = parts_.first_norm->forward(*pass_, flow.normed.tensor, Tensor{}, &flow.residual);
    else if (parts_.pre_norm)
      flow.residual = walk.keep(flow.normed.tensor);
    return flow;
  }

  // Every token is a sequence of one vector, so that all tokens count alike.
  void measure(const Tensor& output) {
    Walk& walk = pass_->walk;
    Tensor distances = walk.make_statistic("distances", {pass_->tokens()});
    walk.run(walk.backend().vector_distance,
             kernels::VectorDistance{.distance = kernels::Distance::squared,
                                     .sequences = pass_->tokens(),
                                     .length = 1,
                                     .columns = hidden(),
                                     .lengths = static_cast<const std::int32_t*>(counted_.data),
                                     .x = output.data,
                                     .target = target_.data,
                                     .weight = 1,
                                     .scale = &state_->scalars.loss_scale,
                                     .distances = distances.data,
                                     .loss = state_->loss});
    walk.drop(distances);
  }

  FlowGradient gradient_of_loss() {
    Walk& walk = pass_->walk;
    Tensor d = walk.make("d_output", {pass_->tokens(), hidden()});
    walk.run(walk.backend().vector_distance_backward,
             kernels::VectorDistanceBackward{.distance = kernels::Distance::squared,
                                             .sequences = pass_->tokens(),
                                             .length = 1,
                                             .columns = hidden(),
                                             .lengths = static_cast<const std::int32_t*>(counted_.data),
                                             .x = output_.data,
                                             .target = target_.data,
                                             .weight = 1,
                                             .scale = &pass_->scalars->loss_scale,
                                             .dx = d.data,
                                             .accumulate = false});
    walk.drop(output_);
    if (!parts_.pre_norm) return {d, Tensor{}};
    const Tensor zero = walk.make("d_normed", d.shape);  // of the next block's input
    walk.run(walk.backend().fill, kernels::Fill{zero.data, zero.bytes()});
    return {zero, d};
  }

  void close() {
    if (parts_.turns) parts_.shared->rotary.end(pass_->walk);
    if (parts_.encoder) parts_.encoder->end(pass_->walk);
    pass_.reset();
  }

  Spec common_;
  layers::TtMerger merger_;
  Builder builder_;
  BlockParts parts_;
  std::optional<Pass> pass_;
  std::vector<std::int32_t> key_end_host_, near_begin_host_, positions_host_, counted_host_;
  Tensor samples_, positions_, counted_, input_, target_;  // inputs
  KeyRanges keys_;                                         // inputs
  Tensor output_;                                          // kept for the backward
};

}  // namespace

bool norms_inputs(const ModelSpec& spec) {
  const auto* encoder = std::get_if<EncoderSpec>(&spec);
  return !encoder || encoder->pre_norm;
}

std::unique_ptr<layers::Model> make_lone_block(const ModelSpec& spec, std::int64_t number, DType dtype) {
  COMERA_CHECK(number >= 0 && number < common(spec).layers);
  ModelSpec still = spec;
  set_dropout(still, 0);
  return std::make_unique<LoneBlock>(still, number, dtype);
}

}  // namespace comera::models
