// What is saved for the backward is a policy. A producer offers its output; a consumer says which use it will make of
// it; the policy decides whether the tensor is kept or computed again. Gradients are the same bits under every policy
// that keeps exact values.
#pragma once

#include "kernels/distillation.h"
#include "lib/layers/sink.h"

namespace comera::layers {

// A layer that can compute its last output again from what it keeps, cheaply and bit for bit.
class Producer {
 public:
  virtual ~Producer() = default;
  virtual Tensor rebuild(Walk& walk) = 0;
};

// A tensor between layers of the forward. Its maker drops it after its last consumer.
struct Value {
  Tensor tensor;
  Producer* producer = nullptr;  // null: cannot be rebuilt cheaply
};

class VocabularyDecoder;

// The losses of a model against a teacher (lib/layers/distillation.h).
struct Distillation {
  bool active = false;   // false: the batch is not looked at
  bool teaches = false;  // language models: leaves what its decoder of words reads, and no loss
  VocabularyDecoder* teacher =
      nullptr;  // of the teacher, for its logits of words; its weights are in memory in a replay
  kernels::Distance distance = kernels::Distance::squared;  // of hidden states and embeddings
  double temperature = 2;                                   // of logits
  double weight = 1;                                        // beside the loss on labels
};

enum class Use : std::uint8_t {
  value,    // the numbers themselves
  product,  // X^T G alone: an estimate of it may stand in (compressed activations)
};

enum class Recompute : std::uint8_t {
  none,   // everything that the backward reads is kept
  cheap,  // what a producer can rebuild is rebuilt: norms, activations, dropout outputs
  block,  // one tensor per block is kept, the block runs again
};

// One consumer's hold on one value between forward and backward.
class Saved {
 public:
  Saved() = default;
  Saved(Tensor kept, Producer* producer) : kept_(kept), producer_(producer) {}

  // The numbers; to be given back with Walk::drop(). May be asked once.
  Tensor value(Walk& walk);
  // result += X^T G, with X seen as [tokens, in]. May be asked once; releases the hold.
  void product(Walk& walk, const Tensor& g, std::int64_t ldg, const Tensor& result, std::int64_t ld_result,
               std::int64_t in, std::int64_t out);

 private:
  Tensor kept_;
  Producer* producer_ = nullptr;
};

class SavePolicy {
 public:
  explicit SavePolicy(Recompute recompute, bool training = true) : recompute_(recompute), training_(training) {}

  bool training() const { return training_; }  // false: evaluation, no dropout, nothing saved
  bool saves() const { return training_ && !discards_; }
  Recompute recompute() const { return recompute_; }
  // A forward whose values are not kept because it will run again: dropout stays on.
  SavePolicy discarding() const;
  // The policy inside a block whose backward comes next: one block's values are few, so all are kept.
  SavePolicy inside_block() const;

  Saved save(Walk& walk, const Value& value, Use use) const;

 private:
  Recompute recompute_;
  bool training_;
  bool discards_ = false;
};

}  // namespace comera::layers
