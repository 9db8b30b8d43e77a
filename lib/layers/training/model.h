// The model's interface for trainer, evaluator and files: parameters, tensor trains, and four calls.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lib/data/batch.h"
#include "lib/layers/cache.h"
#include "lib/layers/cast_weights.h"
#include "lib/layers/training/saved.h"
#include "lib/layers/training/step_state.h"
#include "lib/layers/training/weight_form.h"
#include "lib/plan/inputs.h"

namespace comera::layers {

// A weight in tensor-train form for rank adaptation: a chain of cores with diagonals on the inner bonds.
struct ChainParameters {
  std::string name;                    // of the dense weight, without ".weight"
  std::int64_t rows = 0, columns = 0;  // of the dense weight: linear [out, in], table [vocabulary, width]
  tt::Layout layout;
  tt::Sizes initial_ranks;
  kernels::Activation between = kernels::Activation::none;  // WeightForm::between
  bool folded = false;                                      // no diagonals: they are multiplied into the cores
  bool conv1d = false;                                      // files store the dense weight as [in, out]
  std::vector<std::int32_t> order;           // sorted: row order[p] of the weight [in, out] is row p of the chain
  std::vector<std::int32_t> gauge;           // gauge: column gauge[r] of the right factor is the unit vector e_r
  std::vector<std::int32_t> exact_ids;       // exact: row exact_ids[e] of the table is row e of exact_rows; ascending
  std::vector<Parameter*> cores, diagonals;  // empty if the ranks are 0; diagonals also if folded
  Parameter* exact_rows = nullptr;           // [E, columns] if there are exact rows
};

// Ranks by the name of the tensor train, to build a smaller model.
using RankTable = std::map<std::string, std::vector<std::int64_t>>;

// Outputs of an evaluating forward, which the caller reads and drops. A training forward has none.
struct Outputs {
  Tensor logits;  // classify: [B, labels]; regression: [B, 1]; decoders, if the batch requests rows: [P, vocabulary]
  Tensor best;    // i32: classify [B], mlm [P]: the predicted class or id
  // embed, clm: [B*T, N], the last hidden states; mlm as a teacher: [P, N], the decoder's input
  Tensor hidden = {};
  Tensor embedding = {};  // embed: [B, N]

  void drop(Walk& walk) {
    for (Tensor* tensor : {&logits, &best, &hidden, &embedding})
      if (!tensor->empty()) walk.drop(*tensor);
  }
};

class Model {
 public:
  virtual ~Model();

  Parameters& parameters() { return parameters_; }
  const Parameters& parameters() const { return parameters_; }
  const std::vector<ChainParameters>& chains() const { return chains_; }
  std::vector<ChainParameters>& chains() { return chains_; }
  std::int64_t parameters_dense() const { return parameters_dense_; }  // of the same model in dense form

  // Tensors that live for a whole step: the merged factors, and gradients that are summed over micro-batches. A sink
  // adds its own to the latter.
  plan::Slab& factors() { return factors_; }
  plan::Slab& step_gradients() { return step_gradients_; }
  // Copies of dense weights in the activation dtype, with the lifetime of the merged factors.
  CastWeights& cast_weights() { return cast_weights_; }

  // Diagonal entries at or below the threshold are masked. Minus infinity: none is masked.
  void set_threshold(double threshold) { threshold_ = threshold; }
  double threshold() const { return threshold_; }
  // Sets the losses against a teacher.
  void set_distillation(const Distillation& distillation) { distillation_ = distillation; }
  // Sets the address of the step's scalars, before the first walk of any kind.
  void set_state(StepState* state) { state_ = state; }

  // Lists the inputs that every step needs: orders, gauges and ids that the model holds.
  virtual void declare_constants(plan::Inputs& inputs) = 0;
  // Lists the inputs of a forward and backward over the batch. Their shapes depend on the shapes in the batch alone.
  // They must be bound before the walks run.
  virtual void declare(const data::Batch& batch, plan::Inputs& inputs) = 0;
  // A batch of the given shape as a loader would make it, with zero contents, to plan memory without data.
  virtual data::Batch planning_batch(std::int64_t sequences, std::int64_t length, double mask_probability) const = 0;

  virtual void prepare(Walk& walk) = 0;
  virtual Outputs forward(Walk& walk, const data::Batch& batch, const SavePolicy& policy) = 0;
  virtual void backward(Walk& walk, Sink& sink) = 0;
  virtual void finish(Walk& walk, Sink& sink) = 0;

  // Returns a cache for `sequences` sequences of up to `capacity` tokens; null if the model cannot generate. The caller
  // allocates its memory.
  virtual std::unique_ptr<KeyValueCache> make_cache(std::int64_t sequences, std::int64_t capacity) const;
  // Later evaluating forwards read and extend the cache at the rows in the batch's `cache_rows`. Null: no cache.
  void set_cache(KeyValueCache* cache) { cache_ = cache; }
  virtual void clear_cache(Walk& /*walk*/) {}

  // The decoder that computes vocabulary logits from vectors; null if the model has none.
  virtual VocabularyDecoder* vocabulary_decoder() { return nullptr; }

  // config.json of this model, with the current ranks in the `comera` block.
  virtual std::string config_json() const = 0;

 protected:
  explicit Model(DType dtype);

  Parameters parameters_;
  std::vector<ChainParameters> chains_;
  std::int64_t parameters_dense_ = 0;
  plan::Slab factors_, step_gradients_;
  CastWeights cast_weights_;
  double threshold_ = 0.01;
  StepState* state_ = nullptr;
  KeyValueCache* cache_ = nullptr;
  Distillation distillation_;
};

// Builds the model again with other ranks (empty table: the ranks of the options).
using ModelFactory = std::function<std::unique_ptr<Model>(const RankTable&)>;

}  // namespace comera::layers
