#include "models/decoder/decoder.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>

#include "kernels/bags.h"
#include "kernels/elementwise.h"
#include "lib/layers/distillation.h"
#include "lib/layers/loss.h"
#include "models/decoder/decoder_block.h"
#include "models/decoder/decoder_config.h"
#include "models/decoder/gpt2_block.h"
#include "models/planning.h"

namespace comera::models {
namespace {

using layers::Outputs;
using layers::SavePolicy;

bool is_gpt2(const DecoderSpec& spec) { return spec.family == DecoderFamily::gpt2; }

std::string first_norm_name(const DecoderSpec& spec) {
  return is_gpt2(spec) ? Gpt2Names(spec).layer(0, Gpt2Names::first_norm)
                       : DecoderNames::layer(0, DecoderNames::first_norm);
}

layers::ResidualNorm::Settings first_norm_settings(const DecoderSpec& spec) {
  return {is_gpt2(spec) ? kernels::NormKind::layer : kernels::NormKind::rms, spec.epsilon, spec.embedding_dropout, 0};
}

std::unique_ptr<layers::Table> vocabulary_table(Builder& builder, const DecoderSpec& spec, const std::string& name) {
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
        words_(vocabulary_table(builder_, spec, word_name(spec))),
        position_rows_(is_gpt2(spec) ? make_table(builder_, {Gpt2Names(spec).position, spec.positions, spec.hidden,
                                                             1 / std::sqrt(static_cast<double>(spec.hidden))})
                                     : nullptr),
        first_norm_(builder_, first_norm_name(spec), spec.hidden, first_norm_settings(spec)),
        shared_{layers::Rotary(spec.head_size, rotary_angles(spec.theta, spec.head_size, spec.scaling))} {
    for (std::int64_t i = 0; i < spec.layers; ++i)
      if (is_gpt2(spec))
        blocks_.add(std::make_unique<Gpt2Block>(builder_, spec, i, shared_), Gpt2Names(spec).block(i));
      else
        blocks_.add(std::make_unique<DecoderBlock>(builder_, spec, i, shared_), DecoderNames::block(i));
    if (!spec.tied) head_words_ = vocabulary_table(builder_, spec, DecoderNames::head);
    head_.emplace(builder_, spec.tied ? *words_ : *head_words_, "", spec.vocabulary, spec.hidden);
    head_->observe_as(DecoderNames::head);
    name_copies();
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
    if (spec_.window > 0) declare_window(batch, inputs);
    // Padding may lie behind the last row of a table.
    const std::int64_t last = has_rotary(spec_) ? length : spec_.positions - 1;
    declare_rows(batch, "position_ids", positions_host_, positions_, inputs,
                 [&](std::int64_t k) { return std::min(k % length, last); });
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
    // With dropout, the sum of the tables' rows is no longer the residual stream.
    Tensor d_rows;
    const bool drops = spec_.embedding_dropout > 0;
    Tensor d_stream = first_norm_.backward(*pass_, sink, d.normed, d.residual, drops ? &d_rows : nullptr);
    const Tensor& d_words = drops ? d_rows : d_stream;
    words_->backward(walk, sink, bags(ids_), d_words);
    if (position_rows_) position_rows_->backward(walk, sink, bags(positions_), d_words);
    walk.drop(d_stream);
    if (drops) walk.drop(d_rows);
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
  void clear_cache(Walk& walk) override { cache_->clear(walk, has_rotary(spec_) ? &shared_.rotary : nullptr); }

  layers::VocabularyDecoder* vocabulary_decoder() override { return &*head_; }

  std::string config_json() const override { return to_config_json(spec_, *this); }

 private:
  kernels::Bags bags(const Tensor& ids) const {
    return {pass_->tokens(), pass_->tokens(), static_cast<const std::int32_t*>(ids.data), nullptr};
  }

  // Checkpoints may have a copy of the tied table.
  void name_copies() {
    if (!is_gpt2(spec_) || !spec_.tied) return;
    if (layers::Parameter* words = parameters_.find(word_name(spec_) + ".weight"))
      words->aliases = {std::string(DecoderNames::head) + ".weight"};
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

  // The first key of a query in a layer with a window. Both ranges end after the query's own key.
  void declare_window(const data::Batch& batch, plan::Inputs& inputs) {
    const bool packed = batch.has("key_begin");
    const std::span<const std::int32_t> ends =
        batch.has("key_end") ? batch["key_end"].as<const std::int32_t>() : key_end_host_;
    near_begin_host_.assign(ends.begin(), ends.end());
    for (std::size_t k = 0; k < near_begin_host_.size(); ++k) {
      const std::int32_t first = packed ? batch["key_begin"].as<const std::int32_t>()[k] : 0;
      near_begin_host_[k] =
          std::max<std::int32_t>(first, near_begin_host_[k] - static_cast<std::int32_t>(spec_.window));
    }
    inputs.add({near_begin_host_.data(), DType::i32, {batch.sequences, batch.length}}, keys_.near_begin);
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
    if (!has_rotary(spec_)) return;
    shared_.rotary.begin(*pass_, positions_, batch.length,
                         shared_.cache ? shared_.cache->tables() : layers::RotaryTables{});
  }

  void close_pass() {
    if (has_rotary(spec_)) shared_.rotary.end(pass_->walk);
    pass_.reset();
  }

  Flow enter(Pass& pass) {
    Walk::Scope scope(pass.walk, "embeddings");
    Tensor sum = pass.walk.make("embeddings", {pass.tokens(), spec_.hidden});
    words_->forward(pass.walk, bags(ids_), sum, false);
    if (position_rows_) position_rows_->forward(pass.walk, bags(positions_), sum, true);
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
  std::unique_ptr<layers::Table> position_rows_;  // GPT-2
  layers::ResidualNorm first_norm_;
  SharedByBlocks shared_;
  BlockStack blocks_;
  std::unique_ptr<layers::Table> head_words_;
  std::optional<layers::VocabularyDecoder> head_;
  layers::VectorLoss hidden_loss_{layers::teacher_hidden, true};
  std::optional<Pass> pass_;
  std::vector<std::int32_t> key_end_host_, near_begin_host_, positions_host_;
  Tensor samples_, ids_, positions_, targets_, logit_rows_;  // inputs
  KeyRanges keys_;                                           // inputs
};

}  // namespace

std::unique_ptr<layers::Model> make_decoder(const DecoderSpec& spec, DType dtype) {
  check(spec);
  return std::make_unique<Decoder>(spec, dtype);
}

}  // namespace comera::models
