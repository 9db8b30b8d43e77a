// Cross-entropy over the full logits of a classifier, and over a vocabulary, whose logits are computed in chunks.
#pragma once

#include "lib/layers/distillation.h"
#include "lib/layers/embedding.h"

namespace comera::layers {

// The softmax statistics of each row, and their sums for the step's state.
class CrossEntropy {
 public:
  // Adds a chunk of logits [rows, columns], classes [first, first + columns). The first chunk resets the statistics.
  void add(Pass& pass, const Tensor& logits, std::int64_t first, const Tensor& targets);
  // Adds loss and number of correct predictions to the state. Returns the predicted classes (i32 [rows]), which the
  // caller drops.
  Tensor finish(Pass& pass, StepState& state, const Tensor& targets);
  // Replaces the logits of a chunk by their gradients in place.
  void backward(Pass& pass, const Tensor& logits, std::int64_t first, const Tensor& targets);
  void release(Pass& pass);

 private:
  Tensor maximum_, sum_, target_logit_, best_;
};

// loss = cross-entropy of h E^T (+ bias) against ids. E has the rows of a table: that of the input words (tied: Press
// and Wolf 2017, arXiv 1608.05859) or its own. At most `chunk` columns of logits are in memory, and the backward
// computes them again. With a teacher in the batch, the divergence from the teacher's logits is added.
class VocabularyDecoder {
 public:
  static constexpr std::int64_t chunk = 2048;

  // No bias if `bias_name` is empty.
  VocabularyDecoder(Builder& builder, Table& table, const std::string& bias_name, std::int64_t vocabulary,
                    std::int64_t columns);

  // Observers of inputs see those of this decoder under this name.
  void observe_as(std::string name) { observed_ = std::move(name); }
  // Lists the inputs for logits of `rows` rows.
  void declare(std::int64_t rows, plan::Inputs& inputs);
  Table& table() { return table_; }
  // Lists the inputs of forward() and backward() with P rows.
  void declare_loss(const data::Batch& batch, const Distillation& distillation, std::int64_t rows,
                    plan::Inputs& inputs);

  // h [P, N]; targets i32 [P], -1 for rows without a target. Returns the predicted ids, which the caller drops.
  Tensor forward(Pass& pass, StepState& state, const Value& h, const Tensor& targets);
  // Returns all logits [P, vocabulary] of h [P, N]. The caller drops them.
  Tensor all_logits(Pass& pass, const Tensor& h);
  // Returns the logits [P, count] of the words [first, first + count), in any model's pass. The caller drops them.
  Tensor chunk_logits(Pass& pass, const Tensor& h, std::int64_t first, std::int64_t count);
  // Returns dh [P, N]. The caller drops it.
  Tensor backward(Pass& pass, Sink& sink);

 private:
  void observe(Pass& pass, const Tensor& h) const;
  void add_bias(Pass& pass, const Tensor& logits, std::int64_t first);
  void bias_backward(Pass& pass, Sink& sink, const Tensor& d_logits, std::int64_t first);
  void logits_backward(Pass& pass, const Tensor& logits, std::int64_t first);
  void backward_chunk(Pass& pass, Sink& sink, const Tensor& h, const Tensor& dh, std::int64_t first);

  Table& table_;
  std::int64_t vocabulary_, columns_;
  Parameter* bias_ = nullptr;
  std::string observed_;               // empty: observers see nothing
  std::vector<std::int32_t> numbers_;  // 0, 1, 2, ...: ids of a whole vocabulary
  std::vector<std::int32_t> zeros_;    // one per row: the bias is the same row for all
  CrossEntropy loss_;
  VocabularyDivergence divergence_;
  Slot h_;
  Tensor targets_;
  Tensor words_, zero_ids_;  // inputs: numbers_, and the zeros of the rows
};

}  // namespace comera::layers
