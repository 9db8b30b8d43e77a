#include "models/encoder/encoder.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "kernels/bags.h"
#include "models/encoder/encoder_config.h"
#include "models/heads.h"
#include "models/planning.h"

namespace comera::models {
namespace {

using layers::Outputs;
using layers::SavePolicy;

// Sums the word, position and type tables, then applies LayerNorm and dropout.
class Embeddings {
 public:
  Embeddings(Builder& builder, const EncoderSpec& spec)
      : hidden_(spec.hidden),
        offset_(first_position(spec)),
        longest_(spec.positions),
        types_count_(spec.types),
        has_types_(spec.types > 0) {
    const EncoderNames names(spec);
    // A tied decoder uses the table as its weight. Rows of deviation 1 would give initial logits of deviation
    // sqrt(hidden).
    const double deviation = spec.task == Task::mlm ? 1 / std::sqrt(static_cast<double>(spec.hidden)) : 1;
    words_ = make_table(builder, {names.word, spec.vocabulary, spec.hidden, deviation, spec.form_of(names.word)});
    const double small = deviation * spec.position_deviation;
    if (has_positions(spec))
      positions_ = make_table(builder, {names.position, spec.positions + offset_, spec.hidden, small});
    if (has_types_) types_ = make_table(builder, {names.type, spec.types, spec.hidden, small});
    norm_.emplace(builder, names.embedding_norm, spec.hidden, norm_settings(spec, 0, spec.dropout));
  }

  layers::Table& words() { return *words_; }

  void declare(const data::Batch& batch, plan::Inputs& inputs) {
    const std::int64_t tokens = batch.sequences * batch.length;
    inputs.add(batch["input_ids"], ids_);
    if (positions_) {
      position_ids_.resize(static_cast<std::size_t>(tokens));
      // Padding may lie behind the last row.
      for (std::int64_t k = 0; k < tokens; ++k)
        position_ids_[k] = static_cast<std::int32_t>(std::min(k % batch.length, longest_ - 1) + offset_);
      inputs.add(position_ids_, position_tensor_);
    }
    if (types_count_ > 1) inputs.add(batch["token_type_ids"], type_ids_);
    if (types_count_ != 1) return;
    only_type_.assign(static_cast<std::size_t>(tokens), 0);
    inputs.add(only_type_, type_ids_);
  }

  Value forward(Pass& pass) {
    Walk& walk = pass.walk;
    const std::int64_t tokens = pass.tokens();
    Tensor sum = walk.make("embeddings", {tokens, hidden_});
    words_->forward(walk, bags(ids_, tokens), sum, false);
    if (positions_) positions_->forward(walk, bags(position_tensor_, tokens), sum, true);
    if (has_types_) types_->forward(walk, bags(type_ids_, tokens), sum, true);
    return norm_->forward(pass, sum, Tensor{});
  }

  // Takes ownership of `d`.
  void backward(Pass& pass, Sink& sink, Tensor d) {
    const std::int64_t tokens = pass.tokens();
    Tensor d_sum = norm_->backward(pass, sink, d, Tensor{}, nullptr);
    words_->backward(pass.walk, sink, bags(ids_, tokens), d_sum);
    if (positions_) {
      kernels::Bags positions = bags(position_tensor_, tokens);
      positions.period = pass.length <= longest_ ? pass.length : 0;
      positions_->backward(pass.walk, sink, positions, d_sum);
    }
    if (has_types_) types_->backward(pass.walk, sink, bags(type_ids_, tokens), d_sum);
    pass.walk.drop(d_sum);
  }

 private:
  static kernels::Bags bags(const Tensor& ids, std::int64_t tokens) {
    return {tokens, tokens, static_cast<const std::int32_t*>(ids.data), nullptr};
  }

  std::int64_t hidden_, offset_, longest_, types_count_;
  bool has_types_;
  std::unique_ptr<layers::Table> words_, positions_, types_;
  std::optional<layers::ResidualNorm> norm_;
  std::vector<std::int32_t> position_ids_, only_type_;
  Tensor ids_, type_ids_, position_tensor_;  // inputs
};

std::string with_end(const std::string& name, std::string_view end, const char* other) {
  return name.substr(0, name.size() - end.size()) + other;
}

// Other names of a tensor in checkpoints: TensorFlow's names of a norm's vectors, as in the first checkpoints, and
// tied copies of the table and of the decoder's bias.
std::vector<std::string> aliases_of(const EncoderSpec& spec, const std::string& name) {
  const EncoderNames names(spec);
  if (name.ends_with("LayerNorm.weight")) return {with_end(name, "weight", "gamma")};
  if (name.ends_with("LayerNorm.bias")) return {with_end(name, "bias", "beta")};
  if (spec.task != Task::mlm) return {};
  const std::string bias = names.decoder + ".bias";
  if (name == names.decoder_bias) return name == bias ? std::vector<std::string>{} : std::vector{bias};
  return name == names.word + ".weight" ? std::vector{names.decoder + ".weight"} : std::vector<std::string>{};
}

class Encoder final : public layers::Model {
 public:
  Encoder(const EncoderSpec& spec, DType dtype)
      : Model(dtype),
        spec_(spec),
        merger_(chains_, factors_, step_gradients_),
        builder_{dtype,   parameters_,   chains_,    factors_,         step_gradients_,
                 merger_, cast_weights_, threshold_, parameters_dense_},
        embeddings_(builder_, spec),
        shared_(builder_, spec) {
    if (norms_input(spec, 0))
      first_norm_.emplace(builder_, EncoderNames(spec).layer(0, EncoderNames(spec).output_norm), spec.hidden,
                          norm_settings(spec, 0));
    for (std::int64_t i = 0; i < spec.layers; ++i)
      blocks_.add(std::make_unique<EncoderBlock>(builder_, spec, i, shared_), EncoderNames(spec).block(i));
    head_ = make_head();
    for (layers::Parameter& parameter : parameters_.all()) parameter.aliases = aliases_of(spec, parameter.name);
  }

  void declare_constants(plan::Inputs& inputs) override {
    embeddings_.words().declare(inputs);
    merger_.declare(inputs);
  }

  void declare(const data::Batch& batch, plan::Inputs& inputs) override {
    const auto lengths = batch["lengths"].as<const std::int32_t>();
    key_end_host_.resize(static_cast<std::size_t>(batch.sequences * batch.length));
    for (std::size_t k = 0; k < key_end_host_.size(); ++k)
      key_end_host_[k] = lengths[k / static_cast<std::size_t>(batch.length)];
    inputs.add(batch["samples"], samples_);
    inputs.add({key_end_host_.data(), DType::i32, {batch.sequences, batch.length}}, keys_.end);
    embeddings_.declare(batch, inputs);
    shared_.declare(batch, inputs, keys_);
    head_->declare(batch, distillation_, inputs);
    hidden_loss_.declare(batch, distillation_, inputs);
  }

  data::Batch planning_batch(std::int64_t sequences, std::int64_t length, double mask_probability) const override {
    return models::planning_batch(spec_, sequences, length, mask_probability);
  }

  void prepare(Walk& walk) override {
    Walk::Scope scope(walk, "prepare");
    embeddings_.words().prepare(walk);
    merger_.prepare(walk, threshold_);
    cast_weights_.prepare(walk);
  }

  Outputs forward(Walk& walk, const data::Batch& batch, const SavePolicy& policy) override {
    pass_.emplace(Pass{walk, policy, batch.sequences, batch.length, &state_->scalars,
                       static_cast<const std::int64_t*>(samples_.data), &distillation_});
    Pass& pass = *pass_;
    Flow flow = enter(pass);
    flow = blocks_.forward(pass, flow, keys_);
    if (spec_.pre_norm) walk.drop(flow.residual);
    Outputs outputs;
    {
      Walk::Scope scope(walk, "head");
      outputs = head_->forward(pass, *state_, flow.normed);
      hidden_loss_.forward(pass, *state_, flow.normed);
    }
    walk.drop(flow.normed.tensor);
    if (!policy.saves()) close_pass();
    return outputs;
  }

  void backward(Walk& walk, Sink& sink) override {
    Pass& pass = *pass_;
    FlowGradient d;
    {
      Walk::Scope scope(walk, "head");
      d.normed = head_->backward(pass, sink);
      if (hidden_loss_.active()) hidden_loss_.backward(pass, d.normed, true);
    }
    shared_.open(walk, sink);
    d = blocks_.backward(pass, sink, d, keys_);
    shared_.close(walk, sink);
    Walk::Scope scope(walk, "embeddings");
    if (first_norm_)
      d.normed = first_norm_->backward(pass, sink, d.normed, d.residual, nullptr);
    else if (spec_.pre_norm)
      d.normed = sum_of(pass, d);
    embeddings_.backward(pass, sink, d.normed);
    close_pass();
  }

  void finish(Walk& walk, Sink& sink) override {
    Walk::Scope scope(walk, "finish");
    embeddings_.words().finish(walk, sink);
    merger_.finish(walk, sink, threshold_);
  }

  layers::VocabularyDecoder* vocabulary_decoder() override { return head_->vocabulary_decoder(); }

  std::string config_json() const override { return to_config_json(spec_, *this); }

 private:
  std::unique_ptr<Head> make_head() {
    switch (spec_.task) {
      case Task::classify: return make_classifier(builder_, spec_);
      case Task::regression: return make_regressor(builder_, spec_);
      case Task::multilabel: return make_multilabel_classifier(builder_, spec_);
      case Task::tag: return make_tagger(builder_, spec_);
      case Task::mlm: return make_masked_language_model(builder_, spec_, embeddings_.words());
      default: return make_sentence_embedding(builder_, spec_);
    }
  }

  Flow enter(Pass& pass) {
    Walk::Scope scope(pass.walk, "embeddings");
    shared_.begin(pass);
    Flow flow{embeddings_.forward(pass), Tensor{}};
    if (first_norm_)
      flow.normed = first_norm_->forward(pass, flow.normed.tensor, Tensor{}, &flow.residual);
    else if (spec_.pre_norm)
      flow.residual = pass.walk.keep(flow.normed.tensor);
    return flow;
  }

  void close_pass() {
    shared_.end(pass_->walk);
    pass_.reset();
  }

  EncoderSpec spec_;
  layers::TtMerger merger_;
  Builder builder_;
  Embeddings embeddings_;
  EncoderShared shared_;
  std::optional<layers::ResidualNorm> first_norm_;
  BlockStack blocks_;
  std::unique_ptr<Head> head_;
  layers::VectorLoss hidden_loss_{layers::teacher_hidden, true};
  std::optional<Pass> pass_;
  std::vector<std::int32_t> key_end_host_;
  Tensor samples_;  // input
  KeyRanges keys_;  // inputs
};

}  // namespace

std::unique_ptr<layers::Model> make_encoder(const EncoderSpec& spec, DType dtype) {
  check(spec);
  return std::make_unique<Encoder>(spec, dtype);
}

}  // namespace comera::models
