#include "models/heads.h"

#include <optional>

#include "kernels/elementwise.h"
#include "kernels/pooling.h"
#include "lib/layers/contrastive.h"
#include "lib/layers/logistic.h"

namespace comera::models {
namespace {

using kernels::Activation;
using layers::Distillation;
using layers::Outputs;
using layers::StepState;
using plan::Inputs;

const std::int32_t* ids_of(const Tensor& tensor) { return static_cast<const std::int32_t*>(tensor.data); }

// Gathers rows of x by index, and scatters their gradients.
class RowPicker {
 public:
  explicit RowPicker(std::int64_t columns) : columns_(columns) {}

  Tensor& index() { return index_; }  // input

  Tensor forward(Pass& pass, const Tensor& x) {
    Tensor rows = pass.walk.make("rows", {index_.shape[0], columns_});
    pass.walk.run(pass.backend().gather_rows,
                  kernels::GatherRows{index_.shape[0], columns_, ids_of(index_), x.data, columns_, rows.data});
    return rows;
  }

  // Takes ownership of `d_rows`.
  Tensor backward(Pass& pass, Tensor d_rows) {
    Tensor dx = pass.walk.make("dx", {pass.tokens(), columns_});
    pass.walk.run(pass.backend().fill, kernels::Fill{dx.data, dx.bytes()});
    pass.walk.run(pass.backend().scatter_rows,
                  kernels::ScatterRows{d_rows.shape[0], columns_, ids_of(index_), d_rows.data, dx.data, columns_});
    pass.walk.drop(d_rows);
    return dx;
  }

 private:
  std::int64_t columns_;
  Tensor index_;
};

// One vector per text: its first token, or the mean of its tokens.
class TokenPooling {
 public:
  TokenPooling(kernels::Pooling pooling, bool normalise, std::int64_t columns)
      : pooling_(pooling), normalise_(normalise), columns_(columns) {}

  Tensor& lengths() { return lengths_; }  // input

  // y [B, columns]; norm [B] if `normalise` is set.
  void forward(Pass& pass, const Tensor& x, const Tensor& y, const Tensor& norm) const {
    pass.walk.run(pass.backend().pool_forward, kernels::PoolForward{.pooling = pooling_,
                                                                    .normalise = normalise_,
                                                                    .sequences = pass.sequences,
                                                                    .length = pass.length,
                                                                    .columns = columns_,
                                                                    .lengths = ids_of(lengths_),
                                                                    .x = x.data,
                                                                    .y = y.data,
                                                                    .norm = norm.data});
  }

  // Overwrites dx. y and norm are read if `normalise` is set.
  void backward(Pass& pass, const Tensor& y, const Tensor& norm, const Tensor& dy, const Tensor& dx) const {
    pass.walk.run(pass.backend().pool_backward, kernels::PoolBackward{.pooling = pooling_,
                                                                      .normalise = normalise_,
                                                                      .sequences = pass.sequences,
                                                                      .length = pass.length,
                                                                      .columns = columns_,
                                                                      .lengths = ids_of(lengths_),
                                                                      .y = y.data,
                                                                      .norm = norm.data,
                                                                      .dy = dy.data,
                                                                      .dx = dx.data});
  }

 private:
  kernels::Pooling pooling_;
  bool normalise_;
  std::int64_t columns_;
  Tensor lengths_;
};

layers::LinearSpec head_linear(const EncoderSpec& spec, const std::string& name) {
  layers::LinearSpec linear = spec.linear(name, spec.hidden);
  linear.bias = head_has_bias(spec);
  return linear;
}

// None for families whose classifier reads the token itself.
std::optional<LinearSet> make_pooler(Builder& builder, const EncoderSpec& spec) {
  const std::string name = EncoderNames(spec).head_dense;
  if (name.empty()) return std::nullopt;
  return LinearSet::make(builder, {head_linear(spec, name)}, spec.hidden, head_activation(spec));
}

// Token 0, or the mean of the tokens -> pooler -> dropout -> linear: one row of outputs per text or image.
class TextOutputs {
 public:
  TextOutputs(Builder& builder, const EncoderSpec& spec)
      : hidden_(spec.hidden),
        probability_(spec.head_dropout.value_or(spec.dropout)),
        pooling_(spec.classifier_pooling, false, spec.hidden),
        pooler_(make_pooler(builder, spec)),
        site_(builder.dropout_site()),
        classifier_(LinearSet::make(builder, {{EncoderNames(spec).classifier, spec.outputs()}}, spec.hidden,
                                    Activation::none)) {
    const std::string norm = EncoderNames(spec).head_norm;
    if (norm.empty()) return;
    layers::ResidualNorm::Settings settings = norm_settings(spec, 0);
    settings.output_changes = true;
    norm_.emplace(builder, norm, spec.hidden, settings);
  }

  void declare(const data::Batch& batch, Inputs& inputs) { inputs.add(batch["lengths"], pooling_.lengths()); }

  // Returns [B, outputs]; the caller drops it.
  Tensor forward(Pass& pass, const Value& x) {
    Walk& walk = pass.walk;
    Tensor vector = walk.make("rows", {pass.sequences, hidden_});
    pooling_.forward(pass, x.tensor, vector, Tensor{});
    Tensor pooled = vector;
    if (pooler_) {
      pooler_->forward(pass, {vector, nullptr}, &pooled);
      walk.drop(vector);
    }
    if (norm_) pooled = norm_->forward(pass, pooled, Tensor{}).tensor;
    drop_out(pass, pooled);
    Tensor outputs;
    classifier_.forward(pass, {pooled, nullptr}, &outputs);
    walk.drop(pooled);
    return outputs;
  }

  // Takes ownership of `d_outputs`. The caller drops dx.
  Tensor backward(Pass& pass, Sink& sink, Tensor& d_outputs) {
    Tensor d_pooled = pass.walk.make("d_pooled", {pass.sequences, hidden_});
    classifier_.backward(pass, sink, &d_outputs, d_pooled, false);
    drop_out(pass, d_pooled);
    if (norm_) d_pooled = norm_->backward(pass, sink, d_pooled, Tensor{}, nullptr);
    Tensor d_vector = d_pooled;
    if (pooler_) {
      d_vector = pass.walk.make("d_vector", {pass.sequences, hidden_});
      pooler_->backward(pass, sink, &d_pooled, d_vector, false);
    }
    Tensor dx = pass.walk.make("dx", {pass.tokens(), hidden_});
    pooling_.backward(pass, Tensor{}, Tensor{}, d_vector, dx);
    pass.walk.drop(d_vector);
    return dx;
  }

 private:
  void drop_out(Pass& pass, const Tensor& x) {
    const kernels::Dropout dropout = pass.dropout(probability_, site_, 1);
    if (dropout.probability > 0)
      pass.walk.run(pass.backend().dropout, kernels::DropoutApply{dropout, pass.sequences, hidden_, x.data, x.data});
  }

  std::int64_t hidden_;
  double probability_;
  TokenPooling pooling_;
  std::optional<LinearSet> pooler_;
  std::uint32_t site_;
  LinearSet classifier_;
  std::optional<layers::ResidualNorm> norm_;  // ModernBERT, between them
  Tensor lengths_;                            // input
};

class Classifier final : public Head {
 public:
  Classifier(Builder& builder, const EncoderSpec& spec) : text_(builder, spec) {}

  void declare(const data::Batch& batch, const Distillation& distillation, Inputs& inputs) override {
    text_.declare(batch, inputs);
    inputs.add(batch["labels"], targets_);
    divergence_.declare(batch, distillation, inputs);
  }

  Outputs forward(Pass& pass, StepState& state, const Value& x) override {
    Tensor logits = text_.forward(pass, x);
    loss_.add(pass, logits, 0, targets_);
    divergence_.forward(pass, state, logits);
    return leave(pass, logits, loss_.finish(pass, state, targets_));
  }

  Tensor backward(Pass& pass, Sink& sink) override {
    Walk& walk = pass.walk;
    Tensor towards_teacher;
    if (divergence_.active()) towards_teacher = divergence_.backward(pass, logits_);
    loss_.backward(pass, logits_, 0, targets_);
    if (!towards_teacher.empty()) {
      walk.run(pass.backend().add_scaled,
               kernels::AddScaled{logits_.elements(), 1, towards_teacher.data, logits_.data});
      walk.drop(towards_teacher);
    }
    loss_.release(pass);
    return text_.backward(pass, sink, logits_);
  }

 private:
  // Training keeps the logits, and their gradient reuses their memory. Evaluation returns them.
  Outputs leave(Pass& pass, Tensor logits, Tensor best) {
    if (pass.policy.saves()) {
      logits_ = logits;
      pass.walk.drop(best);
      return {};
    }
    loss_.release(pass);
    return {logits, best};
  }

  TextOutputs text_;
  layers::CrossEntropy loss_;
  layers::DivergenceLoss divergence_;
  Tensor logits_, targets_;
};

class Regressor final : public Head {
 public:
  Regressor(Builder& builder, const EncoderSpec& spec) : text_(builder, spec), loss_(builder.dtype) {}

  void declare(const data::Batch& batch, const Distillation& distillation, Inputs& inputs) override {
    text_.declare(batch, inputs);
    loss_.declare(batch, inputs);
    teacher_loss_.declare(batch, distillation, inputs);
  }

  Outputs forward(Pass& pass, StepState& state, const Value& x) override {
    Tensor numbers = text_.forward(pass, x);
    loss_.forward(pass, state, numbers);
    teacher_loss_.forward(pass, state, {numbers, nullptr});
    if (!pass.policy.saves()) return {numbers, {}};
    numbers_ = numbers;
    return {};
  }

  Tensor backward(Pass& pass, Sink& sink) override {
    Tensor d_numbers = pass.walk.make("d_numbers", numbers_.shape);
    loss_.backward(pass, numbers_, d_numbers);
    if (teacher_loss_.active()) teacher_loss_.backward(pass, d_numbers, true);
    pass.walk.drop(numbers_);
    return text_.backward(pass, sink, d_numbers);
  }

 private:
  TextOutputs text_;
  layers::SquaredError loss_;
  layers::VectorLoss teacher_loss_{layers::teacher_logits, false};
  Tensor numbers_;
};

class MultilabelClassifier final : public Head {
 public:
  MultilabelClassifier(Builder& builder, const EncoderSpec& spec) : text_(builder, spec) {}

  void declare(const data::Batch& batch, const Distillation&, Inputs& inputs) override {
    text_.declare(batch, inputs);
    loss_.declare(batch["label_sets"], inputs);
  }

  Outputs forward(Pass& pass, StepState& state, const Value& x) override {
    Tensor logits = text_.forward(pass, x);
    loss_.forward(pass, state, logits);
    if (!pass.policy.saves()) return {logits, {}};
    logits_ = logits;
    return {};
  }

  Tensor backward(Pass& pass, Sink& sink) override {
    loss_.backward(pass, logits_);
    return text_.backward(pass, sink, logits_);
  }

 private:
  TextOutputs text_;
  layers::Logistic loss_;
  Tensor logits_;
};

class MaskedLanguageModel final : public Head {
 public:
  MaskedLanguageModel(Builder& builder, const EncoderSpec& spec, layers::Table& words)
      : hidden_(spec.hidden),
        picker_(spec.hidden),
        transform_(
            LinearSet::make(builder, {head_linear(spec, EncoderNames(spec).transform)}, spec.hidden, Activation::gelu)),
        norm_(builder, EncoderNames(spec).transform_norm, spec.hidden, norm_settings(spec, 0)),
        decoder_(builder, words, EncoderNames(spec).decoder_bias, spec.vocabulary, spec.hidden) {}

  void declare(const data::Batch& batch, const Distillation& distillation, Inputs& inputs) override {
    inputs.add(batch["masked_index"], picker_.index());
    if (distillation.teaches) return;
    inputs.add(batch["masked_targets"], targets_);
    decoder_.declare_loss(batch, distillation, targets_.elements(), inputs);
  }

  Outputs forward(Pass& pass, StepState& state, const Value& x) override {
    Walk& walk = pass.walk;
    Tensor rows = picker_.forward(pass, x.tensor);
    Tensor transformed;
    transform_.forward(pass, {rows, nullptr}, &transformed);
    walk.drop(rows);
    Value normed = norm_.forward(pass, transformed, Tensor{});
    if (pass.distillation->teaches) return {{}, {}, normed.tensor};
    Tensor best = decoder_.forward(pass, state, normed, targets_);
    walk.drop(normed.tensor);
    if (!pass.policy.saves()) return {Tensor{}, best};
    walk.drop(best);
    return {};
  }

  Tensor backward(Pass& pass, Sink& sink) override {
    Tensor d_transformed = norm_.backward(pass, sink, decoder_.backward(pass, sink), Tensor{}, nullptr);
    Tensor d_rows = pass.walk.make("d_rows", d_transformed.shape);
    transform_.backward(pass, sink, &d_transformed, d_rows, false);
    return picker_.backward(pass, d_rows);
  }

  layers::VocabularyDecoder* vocabulary_decoder() override { return &decoder_; }

 private:
  std::int64_t hidden_;
  RowPicker picker_;
  LinearSet transform_;
  layers::ResidualNorm norm_;
  layers::VocabularyDecoder decoder_;
  Tensor targets_;  // input
};

class SentenceEmbedding final : public Head {
 public:
  SentenceEmbedding(Builder& builder, const EncoderSpec& spec)
      : hidden_(spec.hidden),
        of_pairs_(spec.task == Task::pairs),
        pooling_(spec.sentence.pooling, spec.sentence.normalise || of_pairs_, spec.hidden) {
    if (spec.pooler)
      pooler_ = LinearSet::make(builder, {spec.linear(EncoderNames(spec).pooler, spec.hidden)}, spec.hidden,
                                Activation::tanh);
  }

  void declare(const data::Batch& batch, const Distillation& distillation, Inputs& inputs) override {
    inputs.add(batch["lengths"], pooling_.lengths());
    if (of_pairs_) pairs_.declare(batch, inputs);
    loss_.declare(batch, distillation, inputs);
  }

  Outputs forward(Pass& pass, StepState& state, const Value& x) override {
    Walk& walk = pass.walk;
    norm_ = walk.make_statistic("norm", {pass.sequences});
    embedding_ = walk.make("sentence_embedding", {pass.sequences, hidden_});
    pooling_.forward(pass, x.tensor, embedding_, norm_);
    if (of_pairs_) pairs_.forward(pass, state, embedding_);
    loss_.forward(pass, state, {embedding_, nullptr});
    if (pass.policy.saves()) return {};
    const Outputs outputs{{}, {}, walk.keep(x.tensor), embedding_};
    walk.drop(norm_);
    return outputs;
  }

  // The gradient is zero if there are neither pairs nor a teacher embedding.
  Tensor backward(Pass& pass, Sink&) override {
    Walk& walk = pass.walk;
    Tensor dx = walk.make("dx", {pass.tokens(), hidden_});
    if (of_pairs_ || loss_.active()) {
      Tensor d = walk.make("d_embedding", {pass.sequences, hidden_});
      if (of_pairs_) pairs_.backward(pass, embedding_, d);
      if (loss_.active()) loss_.backward(pass, d, of_pairs_);
      pooling_.backward(pass, embedding_, norm_, d, dx);
      walk.drop(d);
    } else {
      walk.run(pass.backend().fill, kernels::Fill{dx.data, dx.bytes()});
    }
    for (Tensor* tensor : {&norm_, &embedding_}) walk.drop(*tensor);
    return dx;
  }

 private:
  std::int64_t hidden_;
  bool of_pairs_;
  TokenPooling pooling_;
  LinearSet pooler_;
  layers::Contrastive pairs_;
  layers::VectorLoss loss_{layers::teacher_embedding, false};
  Tensor norm_, embedding_;
};

}  // namespace

std::unique_ptr<Head> make_sentence_embedding(Builder& builder, const EncoderSpec& spec) {
  return std::make_unique<SentenceEmbedding>(builder, spec);
}

std::unique_ptr<Head> make_classifier(Builder& builder, const EncoderSpec& spec) {
  return std::make_unique<Classifier>(builder, spec);
}

std::unique_ptr<Head> make_regressor(Builder& builder, const EncoderSpec& spec) {
  return std::make_unique<Regressor>(builder, spec);
}

std::unique_ptr<Head> make_multilabel_classifier(Builder& builder, const EncoderSpec& spec) {
  return std::make_unique<MultilabelClassifier>(builder, spec);
}

std::unique_ptr<Head> make_masked_language_model(Builder& builder, const EncoderSpec& spec, layers::Table& words) {
  return std::make_unique<MaskedLanguageModel>(builder, spec, words);
}

}  // namespace comera::models
