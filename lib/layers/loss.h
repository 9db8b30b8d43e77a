// Cross-entropy over logits that exist (a classifier), and over a vocabulary, whose logits exist a chunk at a time.
#pragma once

#include "lib/layers/distillation.h"
#include "lib/layers/embedding.h"

namespace comera::layers {

// The statistics of a softmax per row, and the sums that the step's state collects.
class CrossEntropy {
 public:
  // Folds a chunk of logits [rows, columns], classes [first, first + columns), in; the first chunk starts afresh.
  void add(Pass& pass, const Tensor& logits, std::int64_t first, const Tensor& targets);
  // Adds loss and hits to the state; gives the predicted classes (i32 [rows]), which the caller drops.
  Tensor finish(Pass& pass, StepState& state, const Tensor& targets);
  // Logits of a chunk become their gradients, in place.
  void backward(Pass& pass, const Tensor& logits, std::int64_t first, const Tensor& targets);
  void release(Pass& pass);

 private:
  Tensor maximum_, sum_, target_logit_, best_;
};

// loss = cross-entropy of h E^T (+ bias) against ids, E the rows of a table: that of the input words (tied: Press and
// Wolf 2017, arXiv 1608.05859) or one of its own. At most `chunk` columns of logits are in memory; the backward
// computes them again. Where the batch says so, a teacher's logits of the same words are learned as well.
class VocabularyDecoder {
 public:
  static constexpr std::int64_t chunk = 2048;

  // No bias where `bias_name` is empty.
  VocabularyDecoder(Builder& builder, Table& table, const std::string& bias_name, std::int64_t vocabulary,
                    std::int64_t columns);

  // h [P, N]; targets i32 [P], -1 where nothing is predicted. Gives the predicted ids, to be dropped.
  Tensor forward(Pass& pass, StepState& state, const data::Batch& batch, const Value& h, const Tensor& targets);
  // All logits [P, vocabulary] of h [P, N]; the caller drops them.
  Tensor all_logits(Pass& pass, const Tensor& h);
  // Logits [P, count] of the words [first, first + count), in any model's pass; the caller drops them. numbers: those
  // of numbers().
  Tensor chunk_logits(Pass& pass, const Tensor& h, const Tensor& numbers, std::int64_t first, std::int64_t count);
  // The ids of all words, to be dropped.
  Tensor numbers(Walk& walk) { return walk.input({numbers_.data(), DType::i32, {vocabulary_}}); }
  // The caller drops dh [P, N].
  Tensor backward(Pass& pass, Sink& sink);

 private:
  Tensor logits(Pass& pass, const Tensor& h, const Tensor& rows, std::int64_t first);
  void add_bias(Pass& pass, const Tensor& logits, std::int64_t first);
  void bias_backward(Pass& pass, Sink& sink, const Tensor& d_logits, std::int64_t first);
  void logits_backward(Pass& pass, const Tensor& logits, std::int64_t first);
  void backward_chunk(Pass& pass, Sink& sink, const Tensor& h, const Tensor& dh, const Tensor& words,
                      std::int64_t first);

  Table& table_;
  std::int64_t vocabulary_, columns_;
  Parameter* bias_ = nullptr;
  std::vector<std::int32_t> numbers_;  // 0, 1, 2, ...: ids of whole chunks
  std::vector<std::int32_t> zeros_;    // as many as rows: the bias is one row for all
  CrossEntropy loss_;
  VocabularyDivergence divergence_;
  Saved h_;
  Tensor targets_;
};

}  // namespace comera::layers
