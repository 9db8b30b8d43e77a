#include "lib/layers/loss.h"

#include <algorithm>
#include <numeric>

#include "kernels/cross_entropy.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/linear.h"
#include "lib/core/error.h"
#include "lib/layers/training/observe.h"

namespace comera::layers {
namespace {

const std::int32_t* ids_of(const Tensor& tensor) { return static_cast<const std::int32_t*>(tensor.data); }

}  // namespace

void CrossEntropy::add(Pass& pass, const Tensor& logits, std::int64_t first, const Tensor& targets) {
  const std::int64_t rows = logits.shape[0], columns = logits.shape[1];
  const bool start = maximum_.empty();
  if (start) {
    maximum_ = pass.walk.make_statistic("maximum", {rows});
    sum_ = pass.walk.make_statistic("sum", {rows});
    target_logit_ = pass.walk.make_statistic("target_logit", {rows});
    best_ = pass.walk.make("best", {rows}, DType::i32);
  }
  pass.walk.run(pass.backend().cross_entropy_chunk,
                kernels::CrossEntropyChunk{.rows = rows,
                                           .columns = columns,
                                           .first = first,
                                           .start = start,
                                           .logits = logits.data,
                                           .ld = columns,
                                           .targets = ids_of(targets),
                                           .maximum = maximum_.data,
                                           .sum = sum_.data,
                                           .target_logit = target_logit_.data,
                                           .best = static_cast<std::int32_t*>(best_.data)});
}

Tensor CrossEntropy::finish(Pass& pass, StepState& state, const Tensor& targets) {
  pass.walk.run(pass.backend().cross_entropy_loss, kernels::CrossEntropyLoss{.rows = maximum_.shape[0],
                                                                             .targets = ids_of(targets),
                                                                             .maximum = maximum_.data,
                                                                             .sum = sum_.data,
                                                                             .target_logit = target_logit_.data,
                                                                             .best = ids_of(best_),
                                                                             .loss_scale = &state.scalars.loss_scale,
                                                                             .loss = state.loss,
                                                                             .correct = &state.correct});
  pass.walk.drop(target_logit_);
  Tensor best = best_;
  best_ = Tensor{};
  return best;
}

void CrossEntropy::backward(Pass& pass, const Tensor& logits, std::int64_t first, const Tensor& targets) {
  pass.walk.run(pass.backend().cross_entropy_backward,
                kernels::CrossEntropyBackward{.rows = logits.shape[0],
                                              .columns = logits.shape[1],
                                              .first = first,
                                              .logits = logits.data,
                                              .ld = logits.shape[1],
                                              .targets = ids_of(targets),
                                              .maximum = maximum_.data,
                                              .sum = sum_.data,
                                              .loss_scale = &pass.scalars->loss_scale});
}

void CrossEntropy::release(Pass& pass) {
  pass.walk.drop(maximum_);
  pass.walk.drop(sum_);
}

VocabularyDecoder::VocabularyDecoder(Builder& builder, Table& table, const std::string& bias_name,
                                     std::int64_t vocabulary, std::int64_t columns)
    : table_(table), vocabulary_(vocabulary), columns_(columns), numbers_(static_cast<std::size_t>(vocabulary)) {
  std::iota(numbers_.begin(), numbers_.end(), 0);
  if (bias_name.empty()) return;
  Parameter bias;
  bias.name = bias_name;
  bias.shape = {vocabulary};
  bias_ = builder.add(std::move(bias));
}

void VocabularyDecoder::declare(std::int64_t rows, plan::Inputs& inputs) {
  inputs.add(numbers_, words_);
  if (!bias_) return;
  const auto count = static_cast<std::size_t>(rows);
  if (zeros_.size() < count) zeros_.assign(count, 0);
  inputs.add(std::span(zeros_).first(count), zero_ids_);
}

void VocabularyDecoder::declare_loss(const data::Batch& batch, const Distillation& distillation, std::int64_t rows,
                                     plan::Inputs& inputs) {
  declare(rows, inputs);
  divergence_.declare(batch, distillation, rows, inputs);
}

void VocabularyDecoder::observe(Pass& pass, const Tensor& h) const {
  InputObserver* observer = observed_.empty() ? nullptr : input_observer();
  if (observer && pass.walk.computes()) observer->see(observed_, h);
}

// Initialises every row of the logits with the bias. A look-up reads it in the parameter type and writes the activation
// dtype.
void VocabularyDecoder::add_bias(Pass& pass, const Tensor& logits, std::int64_t first) {
  const std::int64_t tokens = logits.shape[0], count = logits.shape[1];
  COMERA_CHECK(tokens <= zero_ids_.elements());
  const char* bias =
      static_cast<const char*>(bias_->value.data) + static_cast<std::size_t>(first) * size_of(bias_->value.dtype);
  pass.walk.run(pass.backend().embedding_forward,
                kernels::EmbeddingForward{{tokens, tokens, ids_of(zero_ids_), nullptr}, 1, count, bias, logits.data});
}

Tensor VocabularyDecoder::all_logits(Pass& pass, const Tensor& h) {
  observe(pass, h);
  Tensor all = pass.walk.make("logits", {h.elements() / columns_, vocabulary_});
  if (bias_) add_bias(pass, all, 0);
  table_.project(pass.walk, words_, 0, vocabulary_, h, all.data, vocabulary_, bias_ != nullptr);
  return all;
}

Tensor VocabularyDecoder::chunk_logits(Pass& pass, const Tensor& h, std::int64_t first, std::int64_t count) {
  Tensor logits = pass.walk.make("logits", {h.elements() / columns_, count});
  if (bias_) add_bias(pass, logits, first);
  table_.project(pass.walk, words_, first, count, h, logits.data, count, bias_ != nullptr);
  return logits;
}

Tensor VocabularyDecoder::forward(Pass& pass, StepState& state, const Value& h, const Tensor& targets) {
  observe(pass, h.tensor);
  for (std::int64_t first = 0; first < vocabulary_; first += chunk) {
    Tensor part = chunk_logits(pass, h.tensor, first, std::min(chunk, vocabulary_ - first));
    loss_.add(pass, part, first, targets);
    if (divergence_.active()) divergence_.add(pass, part, first);
    pass.walk.drop(part);
  }
  Tensor best = loss_.finish(pass, state, targets);
  if (divergence_.active()) divergence_.finish(pass, state, targets);
  if (pass.policy.saves()) {
    pass.policy.save(pass.walk, h, Use::value, h_);
    targets_ = pass.walk.keep(targets);
  } else {
    loss_.release(pass);
    if (divergence_.active()) divergence_.release(pass);
  }
  return best;
}

void VocabularyDecoder::bias_backward(Pass& pass, Sink& sink, const Tensor& d_logits, std::int64_t first) {
  Tensor d_bias = sink.open(pass.walk, *bias_);
  kernels::LinearBackward sums;  // column sums only
  sums.tokens = d_logits.shape[0], sums.out = sums.lddy = d_logits.shape[1], sums.dy = d_logits.data;
  sums.d_bias = static_cast<char*>(d_bias.data) + static_cast<std::size_t>(first) * size_of(d_bias.dtype);
  pass.walk.run(pass.backend().linear_backward, sums);
  sink.close(pass.walk, *bias_, d_bias);
}

// Replaces the logits by their gradients in place.
void VocabularyDecoder::logits_backward(Pass& pass, const Tensor& logits, std::int64_t first) {
  Tensor towards_teacher;
  if (divergence_.active()) towards_teacher = divergence_.backward(pass, logits, first, targets_);
  loss_.backward(pass, logits, first, targets_);
  if (towards_teacher.empty()) return;
  pass.walk.run(pass.backend().add_scaled, kernels::AddScaled{logits.elements(), 1, towards_teacher.data, logits.data});
  pass.walk.drop(towards_teacher);
}

void VocabularyDecoder::backward_chunk(Pass& pass, Sink& sink, const Tensor& h, const Tensor& dh, std::int64_t first) {
  const std::int64_t tokens = h.elements() / columns_, count = std::min(chunk, vocabulary_ - first);
  Tensor d_logits = chunk_logits(pass, h, first, count);
  logits_backward(pass, d_logits, first);
  Tensor rows = table_.rows(pass.walk, words_, first, count);
  pass.walk.run(pass.backend().matmul, kernels::MatMul{.m = tokens,
                                                       .n = columns_,
                                                       .k = count,
                                                       .a = d_logits.data,
                                                       .lda = count,
                                                       .transpose_a = false,
                                                       .b = rows.data,
                                                       .ldb = columns_,
                                                       .transpose_b = false,
                                                       .c = dh.data,
                                                       .ldc = columns_,
                                                       .accumulate = first > 0});
  pass.walk.drop(rows);
  if (bias_) bias_backward(pass, sink, d_logits, first);
  table_.rows_backward(pass.walk, sink, words_, first, count, d_logits, h);
  pass.walk.drop(d_logits);
}

Tensor VocabularyDecoder::backward(Pass& pass, Sink& sink) {
  Tensor h = h_->value(pass.walk);
  Tensor dh = pass.walk.make("d_hidden", h.shape);
  for (std::int64_t first = 0; first < vocabulary_; first += chunk) backward_chunk(pass, sink, h, dh, first);
  pass.walk.drop(h);
  pass.walk.drop(targets_);
  loss_.release(pass);
  if (divergence_.active()) divergence_.release(pass);
  return dh;
}

}  // namespace comera::layers
