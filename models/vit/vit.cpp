#include "models/vit/vit.h"

#include <optional>

#include "lib/data/random.h"
#include "models/encoder/encoder_block.h"
#include "models/heads.h"
#include "models/vit/patch_embedding.h"
#include "models/vit/vit_config.h"

namespace comera::models {
namespace {

using layers::Outputs;
using layers::SavePolicy;

class Vit final : public layers::Model {
 public:
  Vit(const VitSpec& spec, DType dtype)
      : Model(dtype),
        spec_(spec),
        merger_(chains_, factors_, step_gradients_),
        builder_{dtype,   parameters_,   chains_,    factors_,         step_gradients_,
                 merger_, cast_weights_, threshold_, parameters_dense_},
        embedding_(builder_, spec),
        shared_(builder_, spec),
        first_norm_(builder_, EncoderNames(spec).layer(0, EncoderNames(spec).output_norm), spec.hidden,
                    norm_settings(spec, spec.dropout)) {
    for (std::int64_t i = 0; i < spec.layers; ++i)
      blocks_.add(std::make_unique<EncoderBlock>(builder_, spec, i, shared_), EncoderNames(spec).block(i));
    head_ = make_classifier(builder_, spec);
  }

  void declare_constants(plan::Inputs& inputs) override { merger_.declare(inputs); }

  void declare(const data::Batch& batch, plan::Inputs& inputs) override {
    inputs.add(batch["samples"], samples_);
    embedding_.declare(batch, inputs);
    head_->declare(batch, distillation_, inputs);
    hidden_loss_.declare(batch, distillation_, inputs);
  }

  data::Batch planning_batch(std::int64_t sequences, std::int64_t, double) const override {
    data::Batch batch;
    data::shape_image_batch(frame_of(spec_), sequences, batch);
    batch.counted = sequences;
    const data::Random random(0, 0, data::Purpose::sample);
    const auto pixels = batch["pixel_values"].as<float>();
    for (std::size_t i = 0; i < pixels.size(); ++i)
      pixels[i] = static_cast<float>(random.draw(i).word[0] / 2147483648.0 - 1);
    const auto labels = batch["labels"].as<std::int32_t>();
    const auto samples = batch["samples"].as<std::int64_t>();
    for (std::size_t b = 0; b < labels.size(); ++b)
      labels[b] = static_cast<std::int32_t>(b % spec_.labels.size()), samples[b] = static_cast<std::int64_t>(b);
    return batch;
  }

  void prepare(Walk& walk) override {
    Walk::Scope scope(walk, "prepare");
    merger_.prepare(walk, threshold_);
    cast_weights_.prepare(walk);
  }

  Outputs forward(Walk& walk, const data::Batch& batch, const SavePolicy& policy) override {
    pass_.emplace(Pass{walk, policy, batch.sequences, spec_.tokens(), &state_->scalars,
                       static_cast<const std::int64_t*>(samples_.data), &distillation_});
    Pass& pass = *pass_;
    Flow flow = blocks_.forward(pass, enter(pass), {});
    walk.drop(flow.residual);
    Outputs outputs;
    {
      Walk::Scope scope(walk, "head");
      outputs = head_->forward(pass, *state_, flow.normed);
      hidden_loss_.forward(pass, *state_, flow.normed);
    }
    walk.drop(flow.normed.tensor);
    if (!policy.saves()) pass_.reset();
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
    d = blocks_.backward(pass, sink, d, {});
    Walk::Scope scope(walk, "embeddings");
    Tensor d_rows;
    Tensor d_stream = first_norm_.backward(pass, sink, d.normed, d.residual, &d_rows);
    walk.drop(d_stream);
    embedding_.backward(pass, sink, d_rows);
    pass_.reset();
  }

  void finish(Walk& walk, Sink& sink) override {
    Walk::Scope scope(walk, "finish");
    merger_.finish(walk, sink, threshold_);
  }

  std::string config_json() const override { return to_config_json(spec_, *this); }

 private:
  // The residual stream is the rows after dropout.
  Flow enter(Pass& pass) {
    Walk::Scope scope(pass.walk, "embeddings");
    Flow flow;
    flow.normed = first_norm_.forward(pass, embedding_.forward(pass), Tensor{}, &flow.residual);
    return flow;
  }

  VitSpec spec_;
  layers::TtMerger merger_;
  Builder builder_;
  PatchEmbedding embedding_;
  EncoderShared shared_;
  layers::ResidualNorm first_norm_;
  BlockStack blocks_;
  std::unique_ptr<Head> head_;
  layers::VectorLoss hidden_loss_{layers::teacher_hidden, true};
  std::optional<Pass> pass_;
  Tensor samples_;  // input
};

}  // namespace

std::unique_ptr<layers::Model> make_vit(const VitSpec& spec, DType dtype) {
  check(spec);
  return std::make_unique<Vit>(spec, dtype);
}

}  // namespace comera::models
