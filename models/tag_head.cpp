// The head that labels words: dropout and a linear layer on every token. ModernBERT has a layer and a norm before them.
#include <optional>

#include "kernels/elementwise.h"
#include "models/heads.h"

namespace comera::models {
namespace {

using layers::Distillation;
using layers::Outputs;
using layers::StepState;
using plan::Inputs;

// Transformers gives DistilBERT's words the dropout of its blocks.
double dropout_of(const EncoderSpec& spec) {
  return spec.family == EncoderFamily::distilbert ? spec.dropout : spec.head_dropout.value_or(spec.dropout);
}

class Tagger final : public Head {
 public:
  Tagger(Builder& builder, const EncoderSpec& spec) : hidden_(spec.hidden), probability_(dropout_of(spec)) {
    const EncoderNames names(spec);
    if (is_modern(spec)) {
      layers::LinearSpec dense = spec.linear(names.head_dense, spec.hidden);
      dense.bias = head_has_bias(spec);
      dense_.emplace(LinearSet::make(builder, {dense}, spec.hidden, head_activation(spec)));
      layers::ResidualNorm::Settings settings = norm_settings(spec, 0);
      settings.output_changes = true;
      norm_.emplace(builder, names.head_norm, spec.hidden, settings);
    }
    site_ = builder.dropout_site();
    classifier_.emplace(
        LinearSet::make(builder, {{names.classifier, spec.outputs()}}, spec.hidden, kernels::Activation::none));
  }

  void declare(const data::Batch& batch, const Distillation&, Inputs& inputs) override {
    inputs.add(batch["word_labels"], targets_);
  }

  Outputs forward(Pass& pass, StepState& state, const Value& x) override {
    Walk& walk = pass.walk;
    Tensor rows = input_of(pass, x);
    Tensor logits;
    classifier_->forward(pass, {rows, nullptr}, &logits);
    walk.drop(rows);
    loss_.add(pass, logits, 0, targets_);
    Tensor best = loss_.finish(pass, state, targets_);
    if (pass.policy.saves()) {
      logits_ = logits;
      walk.drop(best);
      return {};
    }
    loss_.release(pass);
    return {logits, best};
  }

  Tensor backward(Pass& pass, Sink& sink) override {
    Walk& walk = pass.walk;
    loss_.backward(pass, logits_, 0, targets_);
    loss_.release(pass);
    Tensor dx = walk.make("dx", {pass.tokens(), hidden_});
    classifier_->backward(pass, sink, &logits_, dx, false);
    drop_out(pass, dx.data, dx.data);
    if (!dense_) return dx;
    Tensor d_dense = norm_->backward(pass, sink, dx, Tensor{}, nullptr);
    Tensor d_input = walk.make("dx", {pass.tokens(), hidden_});
    dense_->backward(pass, sink, &d_dense, d_input, false);
    return d_input;
  }

 private:
  // The rows that the last layer reads; the caller drops them.
  Tensor input_of(Pass& pass, const Value& x) {
    Walk& walk = pass.walk;
    if (!dense_ && probability(pass) <= 0) return walk.keep(x.tensor);
    if (!dense_) {
      Tensor rows = walk.make("rows", {pass.tokens(), hidden_});
      drop_out(pass, x.tensor.data, rows.data);
      return rows;
    }
    Tensor rows;
    dense_->forward(pass, x, &rows);
    rows = norm_->forward(pass, rows, Tensor{}).tensor;
    drop_out(pass, rows.data, rows.data);
    return rows;
  }

  double probability(Pass& pass) const { return pass.dropout(probability_, site_).probability; }

  // y may be x.
  void drop_out(Pass& pass, const void* x, void* y) {
    const kernels::Dropout dropout = pass.dropout(probability_, site_);
    if (dropout.probability > 0)
      pass.walk.run(pass.backend().dropout, kernels::DropoutApply{dropout, pass.tokens(), hidden_, x, y});
  }

  std::int64_t hidden_;
  double probability_;
  std::optional<LinearSet> dense_;  // ModernBERT
  std::optional<layers::ResidualNorm> norm_;
  std::uint32_t site_ = 0;
  std::optional<LinearSet> classifier_;
  layers::CrossEntropy loss_;
  Tensor logits_, targets_;
};

}  // namespace

std::unique_ptr<Head> make_tagger(Builder& builder, const EncoderSpec& spec) {
  return std::make_unique<Tagger>(builder, spec);
}

}  // namespace comera::models
