// A policy decides which tensors are saved for the backward. A producer offers its output, a consumer declares how it
// will use it, and the policy decides if the tensor is kept or computed again. Gradients are bitwise equal under every
// policy that keeps exact values.
#pragma once

#include <memory>

#include "lib/layers/training/sink.h"

namespace comera::layers {

// A layer that can compute its last output again from its saved tensors, cheaply and bitwise equal.
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
  bool active = false;   // false: the batch is not read
  bool teaches = false;  // language models: outputs the input of the vocabulary decoder, and computes no loss
  // The teacher's decoder, for its vocabulary logits. Its weights are in memory in a replay.
  VocabularyDecoder* teacher = nullptr;
  kernels::Distance distance = kernels::Distance::squared;  // of hidden states and embeddings
  double temperature = 2;                                   // of logits
  double weight = 1;                                        // relative to the loss on labels
};

enum class Use : std::uint8_t {
  value,    // the numbers
  product,  // X^T G only, through Saved::product(): an estimate of it may be used (compressed activations)
};

enum class Recompute : std::uint8_t {
  none,   // everything that the backward reads is kept
  cheap,  // values that a producer can rebuild are rebuilt: norms, activations, dropout outputs
  block,  // one tensor per block is kept, and the block runs again
};

// One consumer's reference to one value between forward and backward. The policy makes it in a slot of the consumer.
class Saved {
 public:
  virtual ~Saved() = default;
  // Returns the numbers, exact or approximate. The caller drops them. May be called several times.
  virtual Tensor read(Walk& walk) = 0;
  // Frees what is kept. Called once, after the last read.
  virtual void release(Walk& walk) = 0;
  // result += X^T G, with X seen as [tokens, in]. The default multiplies by read(); an estimate may need less memory.
  virtual void product(Walk& walk, const Tensor& g, std::int64_t ldg, const Tensor& result, std::int64_t ld_result,
                       std::int64_t in, std::int64_t out);

  Tensor value(Walk& walk);  // read() and release()
};
using SavedPtr = std::unique_ptr<Saved>;

// Decides in which form a value is kept that is not computed again.
class Keeper {
 public:
  virtual ~Keeper() = default;
  // Keeps `tensor` in `slot`, which is empty or holds the object of an earlier step; a step at a known shape reuses it,
  // so that it allocates nothing. The caller keeps its own reference to `tensor`.
  virtual void keep(Walk& walk, const Tensor& tensor, Use use, SavedPtr& slot) const = 0;
};
const Keeper& exact_keeper();  // keeps the tensor itself

class SavePolicy {
 public:
  // `keeper` must outlive the policy.
  explicit SavePolicy(Recompute recompute, bool training = true, const Keeper& keeper = exact_keeper())
      : recompute_(recompute), training_(training), keeper_(&keeper) {}

  bool training() const { return training_; }  // false: evaluation, no dropout, nothing saved
  bool saves() const { return training_ && !discards_; }
  Recompute recompute() const { return recompute_; }
  // For a forward that keeps no values because it will run again. Dropout stays on.
  SavePolicy discarding() const;
  // For a block that runs again just before its backward. All its values are kept, because they are few.
  SavePolicy inside_block() const;

  // Keeps the value in the caller's slot, or nothing if saves() is false. The caller keeps its own reference.
  void save(Walk& walk, const Value& value, Use use, SavedPtr& slot) const;
  // The same, and drops the caller's reference.
  void take(Walk& walk, Tensor& tensor, Use use, SavedPtr& slot) const;

 private:
  Recompute recompute_;
  bool training_;
  bool discards_ = false;
  const Keeper* keeper_;
};

}  // namespace comera::layers
