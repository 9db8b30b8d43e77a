#include "models/decoder/decoder.h"

#include <cmath>
#include <optional>

#include "kernels/bags.h"
#include "kernels/elementwise.h"
#include "lib/layers/distillation.h"
#include "lib/layers/loss.h"
#include "models/decoder/decoder_block.h"
#include "models/decoder/decoder_config.h"
#include "models/planning.h"

namespace comera::models {
namespace {

using layers::Outputs;
using layers::SavePolicy;

std::unique_ptr<layers::Table> vocabulary_table(Builder& builder, const DecoderSpec& spec, const char* name) {
  const double deviation =
      1 / std::sqrt(static_cast<double>(spec.hidden));  // the logits of the first step have deviation 1
  return make_table(builder, {name, spec.vocabulary, spec.hidden, deviation, spec.form_of(name),
                              std::string_view(name) == DecoderNames::head});
}

class Decoder final : public layers::Model {
 public:
  Decoder(const DecoderSpec& spec, DType dtype)
      : Model(dtype),
        spec_(spec),
        merger_(chains_, factors_, step_gradients_),
        builder_{dtype,   parameters_,   chains_,    factors_,         step_gradients_,
                 merger_, cast_weights_, threshold_, parameters_dense_},
        words_(vocabulary_table(builder_, spec, DecoderNames::word)),
        first_norm_(builder_, DecoderNames::layer(0, DecoderNames::first_norm), spec.hidden,
                    {kernels::NormKind::rms, spec.epsilon, 0, 0}),
        shared_{layers::Rotary(spec.head_size, rotary_angles(spec.theta, spec.head_size, spec.scaling))} {
    for (std::int64_t i = 0; i < spec.layers; ++i)
      blocks_.add(std::make_unique<DecoderBlock>(builder_, spec, i, shared_));
    if (!spec.tied) head_words_ = vocabulary_table(builder_, spec, DecoderNames::head);
    head_.emplace(builder_, spec.tied ? *words_ : *head_words_, "", spec.vocabulary, spec.hidden);
  }

  void declare_constants(plan::Inputs& inputs) override {
    words_->declare(inputs);
    if (head_words_) head_words_->declare(inputs);
    merger_.declare(inputs);
  }

  void declare(const data::Batch& batch, plan::Inputs& inputs) override {
    const auto lengths = batch["lengths"].as<const std::int32_t>();
    const std::int64_t length = batch.length;
    inputs.add(batch["samples"], samples_);
    inputs.add(batch["input_ids"], ids_);
    keys_.begin = {};
    if (batch.has("key_begin")) inputs.add(batch["key_begin"], keys_.begin);
    // A query attends to itself and earlier tokens. Padding attends to nothing.
    declare_rows(batch, "key_end", key_end_host_, keys_.end, inputs, [&](std::int64_t k) {
      const std::int64_t t = k % length;
      return t < lengths[static_cast<std::size_t>(k / length)] ? t + 1 : 0;
    });
    declare_rows(batch, "position_ids", positions_host_, positions_, inputs,
                 [&](std::int64_t k) { return k % length; });
    if (cache_) inputs.add(batch["cache_rows"], shared_.cache_rows);
    declare_head(batch, inputs);
    hidden_loss_.declare(batch, distillation_, inputs);
  }

  data::Batch planning_batch(std::int64_t sequences, std::int64_t length, double mask_probability) const override {
    return models::planning_batch(spec_, sequences, length, mask_probability);
  }

  void prepare(Walk& walk) override {
    Walk::Scope scope(walk, "prepare");
    words_->prepare(walk);
    if (head_words_) head_words_->prepare(walk);
    merger_.prepare(walk, threshold_);
    cast_weights_.prepare(walk);
  }

  Outputs forward(Walk& walk, const data::Batch& batch, const SavePolicy& policy) override {
    open_pass(walk, batch, policy);
    Flow flow = blocks_.forward(*pass_, enter(*pass_), keys_);
    walk.drop(flow.residual);
    Outputs outputs = leave(*pass_, batch, flow.normed);
    hidden_loss_.forward(*pass_, *state_, flow.normed);
    walk.drop(flow.normed.tensor);
    if (!policy.saves()) close_pass();
    return outputs;
  }

  void backward(Walk& walk, Sink& sink) override {
    FlowGradient d;
    {
      Walk::Scope scope(walk, "head");
      d.normed = head_->backward(*pass_, sink);
      if (hidden_loss_.active()) hidden_loss_.backward(*pass_, d.normed, true);
    }
    d = blocks_.backward(*pass_, sink, d, keys_);
    Walk::Scope scope(walk, "embeddings");
    Tensor d_words = first_norm_.backward(*pass_, sink, d.normed, d.residual, nullptr);
    words_->backward(walk, sink, bags(), d_words);
    walk.drop(d_words);
    close_pass();
  }

  void finish(Walk& walk, Sink& sink) override {
    Walk::Scope scope(walk, "finish");
    words_->finish(walk, sink);
    if (head_words_) head_words_->finish(walk, sink);
    merger_.finish(walk, sink, threshold_);
  }

  std::unique_ptr<layers::KeyValueCache> make_cache(std::int64_t sequences, std::int64_t capacity) const override {
    const layers::CacheShape shape{spec_.layers, sequences, capacity, spec_.key_heads * spec_.head_size,
                                   spec_.head_size};
    return std::make_unique<layers::KeyValueCache>(builder_.dtype, shape);
  }
  void clear_cache(Walk& walk) override { cache_->clear(walk, shared_.rotary); }

  layers::VocabularyDecoder* vocabulary_decoder() override { return &*head_; }

  std::string config_json() const override { return to_config_json(spec_, *this); }

 private:
  kernels::Bags bags() const {
    return {pass_->tokens(), pass_->tokens(), static_cast<const std::int32_t*>(ids_.data), nullptr};
  }

  // Lists the batch's tensor, or (without packed documents) a tensor with number(k) in row k.
  template <class Number>
  static void declare_rows(const data::Batch& batch, const char* name, std::vector<std::int32_t>& host, Tensor& bound,
                           plan::Inputs& inputs, Number number) {
    if (batch.has(name)) return inputs.add(batch[name], bound);
    host.resize(static_cast<std::size_t>(batch.sequences * batch.length));
    for (std::size_t k = 0; k < host.size(); ++k)
      host[k] = static_cast<std::int32_t>(number(static_cast<std::int64_t>(k)));
    inputs.add({host.data(), DType::i32, {batch.sequences, batch.length}}, bound);
  }

  void declare_head(const data::Batch& batch, plan::Inputs& inputs) {
    if (distillation_.teaches) return;
    if (batch.has("targets")) {
      inputs.add(batch["targets"], targets_);
      head_->declare_loss(batch, distillation_, targets_.elements(), inputs);
    } else {
      inputs.add(batch["logit_rows"], logit_rows_);
      head_->declare(logit_rows_.elements(), inputs);
    }
  }

  void open_pass(Walk& walk, const data::Batch& batch, const SavePolicy& policy) {
    pass_.emplace(Pass{walk, policy, batch.sequences, batch.length, &state_->scalars,
                       static_cast<const std::int64_t*>(samples_.data), &distillation_});
    shared_.cache = policy.saves() ? nullptr : cache_;
    shared_.rotary.begin(*pass_, positions_, batch.length,
                         shared_.cache ? shared_.cache->tables() : layers::RotaryTables{});
  }

  void close_pass() {
    shared_.rotary.end(pass_->walk);
    pass_.reset();
  }

  Flow enter(Pass& pass) {
    Walk::Scope scope(pass.walk, "embeddings");
    Tensor sum = pass.walk.make("embeddings", {pass.tokens(), spec_.hidden});
    words_->forward(pass.walk, bags(), sum, false);
    Flow flow;
    flow.normed = first_norm_.forward(pass, sum, Tensor{}, &flow.residual);
    return flow;
  }

  Outputs leave(Pass& pass, const data::Batch& batch, const Value& x) {
    Walk& walk = pass.walk;
    Walk::Scope scope(walk, "head");
    Outputs outputs;
    if (pass.distillation->teaches) {
      outputs.hidden = walk.keep(x.tensor);
      return outputs;
    }
    if (batch.has("targets")) {
      outputs.best = head_->forward(pass, *state_, x, targets_);
      if (pass.policy.saves())
        walk.drop(outputs.best);
      else
        outputs.hidden = walk.keep(x.tensor);
      return outputs;
    }
    Tensor picked = walk.make("rows", {logit_rows_.shape[0], spec_.hidden});
    walk.run(walk.backend().gather_rows,
             kernels::GatherRows{logit_rows_.shape[0], spec_.hidden, static_cast<const std::int32_t*>(logit_rows_.data),
                                 x.tensor.data, spec_.hidden, picked.data});
    outputs.logits = head_->all_logits(pass, picked);
    walk.drop(picked);
    return outputs;
  }

  DecoderSpec spec_;
  layers::TtMerger merger_;
  Builder builder_;
  std::unique_ptr<layers::Table> words_;
  layers::ResidualNorm first_norm_;
  SharedByBlocks shared_;
  BlockStack blocks_;
  std::unique_ptr<layers::Table> head_words_;
  std::optional<layers::VocabularyDecoder> head_;
  layers::VectorLoss hidden_loss_{layers::teacher_hidden, true};
  std::optional<Pass> pass_;
  std::vector<std::int32_t> key_end_host_, positions_host_;
  Tensor samples_, ids_, positions_, targets_, logit_rows_;  // inputs
  KeyRanges keys_;                                           // inputs
};

}  // namespace

std::unique_ptr<layers::Model> make_decoder(const DecoderSpec& spec, DType dtype) {
  check(spec);
  return std::make_unique<Decoder>(spec, dtype);
}

}  // namespace comera::models
