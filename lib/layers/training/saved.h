// A policy decides which tensors are saved for the backward. A producer offers its output, a consumer declares how it
// will use it, and the policy decides if the tensor is kept or computed again. Gradients are bitwise equal under every
// policy that keeps exact values.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "kernels/group_codes.h"
#include "lib/layers/training/sink.h"

namespace comera::layers {

// A layer that can compute its last output again from its saved tensors, cheaply and bitwise equal.
class Producer {
 public:
  virtual ~Producer() = default;
  virtual Tensor rebuild(Walk& walk) = 0;
  // True: product() with a G of `out` columns may be called. It needs no memory for the output.
  virtual bool multiplies(const Walk& walk, std::int64_t out) const {
    return static_cast<void>(walk), static_cast<void>(out), false;
  }
  // result += Y^T G for its output Y [tokens, in], G [tokens, out] and a result [in, out].
  virtual void product(Walk& walk, const Tensor& g, std::int64_t ldg, const Tensor& result, std::int64_t ld_result,
                       std::int64_t out);
};

// A tensor between layers of the forward. Its maker drops it after its last consumer.
struct Value {
  Tensor tensor;
  Producer* producer = nullptr;  // null: cannot be rebuilt cheaply
  bool kept = false;             // its maker keeps the numbers for its own backward
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
  slope,    // products with act'(X) for the activation of the slot; X itself only to compute act(X) again
};

enum class Recompute : std::uint8_t {
  none,   // everything that the backward reads is kept
  cheap,  // values that a producer can rebuild are rebuilt: norms, activations, dropout outputs
  share,  // like cheap, but the outputs of norms are kept, and their inputs are restored from them
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
  // False: read() gives numbers near those that were kept.
  virtual bool exact() const { return true; }
  // True: the numbers are gone, and only product() may be called.
  virtual bool estimates() const { return false; }
  // result += X^T G, with X seen as [tokens, in] and a result [in, out], or that of a gradient in a subspace. The
  // default multiplies by read(); an estimate may need less memory.
  virtual void product(Walk& walk, const Tensor& g, std::int64_t ldg, const Tensor& result, std::int64_t ld_result,
                       std::int64_t in, std::int64_t out);
  // True: product() with an X of `in` columns and a G of `out` needs no memory for the numbers.
  virtual bool multiplies(const Walk& walk, std::int64_t in, std::int64_t out) const {
    return static_cast<void>(walk), static_cast<void>(in + out), false;
  }
  // The numbers as codes in memory, for ops that restore them where they read; nullopt: only read() has them.
  virtual std::optional<kernels::CodedRows> coded() const { return std::nullopt; }
  // False: only the slope of an activation at X is kept. read() is then an error, and multiply_by_slope() takes its
  // place.
  virtual bool has_numbers() const { return true; }
  // dy *= act'(X)
  virtual void multiply_by_slope(Walk& walk, const Tensor& dy);

  Tensor value(Walk& walk);  // read() and release()
};

// A consumer's place for one saved value.
struct Slot {
  std::string layer = {};             // Hugging Face name of the layer, for rules
  Place place = Place::other;         // of the layer
  const Parameter* weight = nullptr;  // of a dense linear layer: product() computes its gradient
  std::unique_ptr<Saved> saved = {};
  kernels::Activation activation = kernels::Activation::none;  // of Use::slope

  Saved* operator->() const { return saved.get(); }
};

// The object of type T in the slot, made if there is none. A step at a known shape finds the object of an earlier step
// and allocates nothing.
template <class T>
T& object_in(Slot& slot) {
  if (auto* const there = dynamic_cast<T*>(slot.saved.get())) return *there;
  auto made = std::make_unique<T>();
  T& object = *made;
  slot.saved = std::move(made);
  return object;
}

// Decides in which form a value is kept that is not computed again.
class Keeper {
 public:
  virtual ~Keeper() = default;
  // A model is adopted, before its sink and optimiser are made: `weight` is the dense weight of a linear layer.
  virtual void declare(Parameter& weight, const std::string& layer) {
    static_cast<void>(weight), static_cast<void>(layer);
  }
  // A forward begins. Random numbers of its values have the key of `scalars`, in device memory (may be null).
  virtual void begin(const kernels::StepScalars* scalars) { static_cast<void>(scalars); }
  // Keeps `tensor` in `slot`, which is empty or holds the object of an earlier step. The caller keeps its own reference
  // to `tensor`.
  virtual void keep(Walk& walk, const Tensor& tensor, Use use, Slot& slot) = 0;
  // What is computed again of the values of `layer`, and if the block of this name runs again, where the policy has
  // `all` for all layers.
  virtual Recompute recompute(const std::string& layer, Recompute all) { return static_cast<void>(layer), all; }
  virtual bool runs_again(const std::string& block, Recompute all) {
    return static_cast<void>(block), all == Recompute::block;
  }
  // Like keep(), for a value that the producer computes again for each read.
  virtual void rebuild(Producer* producer, Use use, Slot& slot);
  // True: it decides by the sizes of a step: before the first plan a step is recorded once more, and
  // studied() receives its FLOPs after the keeper has seen its values.
  virtual bool studies() const { return false; }
  virtual void studied(double forward_flops) { static_cast<void>(forward_flops); }
  // Plans have been made: allocates what it keeps outside of them. True if memory that earlier steps used has moved.
  virtual bool allocate(const kernels::Backend& backend) { return static_cast<void>(backend), false; }
  // A step has been planned. Throws InputError if a rule of the keeper has matched no layer.
  virtual void check_rules() const {}
};
Keeper& exact_keeper();  // keeps the tensor itself

class SavePolicy {
 public:
  // `recompute` is for all layers, unless the keeper decides by name. `keeper` must outlive the policy.
  explicit SavePolicy(Recompute recompute, bool training = true, Keeper& keeper = exact_keeper())
      : recompute_(recompute), training_(training), keeper_(&keeper) {}

  bool training() const { return training_; }  // false: evaluation, no dropout, nothing saved
  bool saves() const { return training_ && !discards_; }
  Recompute recompute(const std::string& layer) const;
  // True: the backward runs this block again.
  bool runs_again(const std::string& block) const;
  // For a forward that keeps no values because it will run again. Dropout stays on.
  SavePolicy discarding() const;
  // For the inside of a block. If it runs again just before its backward, all its values are kept, because they are
  // few.
  SavePolicy inside_block(bool runs_again) const;

  // Keeps the value in the caller's slot, or nothing if saves() is false. The caller keeps its own reference.
  void save(Walk& walk, const Value& value, Use use, Slot& slot) const;
  // The same, and drops the caller's reference.
  void take(Walk& walk, Tensor& tensor, Use use, Slot& slot) const;

 private:
  Recompute recompute_;
  bool training_;
  bool discards_ = false;
  bool inside_ = false;  // of a block that runs again
  Keeper* keeper_;
};

}  // namespace comera::layers
