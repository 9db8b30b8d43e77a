// Runs a model: owns the machine, the memory and the plans, and defines the order of calls of a training step and of an
// evaluation.
//
// Memory: one arena for weights and moments, one for the step: [merged factors | copies of dense weights | step-long
// gradients | the region that the walks share]. Plans are made once per phase and batch shape. A new shape may grow the
// step arena before the step begins. A known shape allocates nothing.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <tuple>

#include "lib/data/loader.h"
#include "lib/engine/device_block.h"
#include "lib/engine/device_steps.h"
#include "lib/engine/memory_table.h"
#include "lib/engine/weight_update.h"

namespace comera::engine {

using data::Batch;

struct EngineOptions {
  layers::Recompute recompute = layers::Recompute::none;
  std::shared_ptr<const UpdateRule> update = nullptr;  // null: evaluation only, without gradients and state
  layers::MakeSink sink = layers::make_accumulate_sink;
  bool fetch_hidden = false;                         // evaluations return hidden states
  bool call_by_call = false;                         // on a device, steps are no graphs
  std::shared_ptr<layers::Keeper> keeper = nullptr;  // of the values that the backward reads; null: as they are
  // Called before each op of an evaluation, and of a training step until the first weight changes. It may throw to
  // abandon them: weights and the state of the update are then as before. Not called on a device, where a step is one
  // call.
  std::function<void()> poll = nullptr;

  bool training() const { return update != nullptr; }
};

// Results of an evaluation for one batch. The spans are valid until the next call.
struct Scores {
  double loss = 0;                     // summed, not divided
  double correct = 0;                  // of the batch's `counted`
  std::span<const std::int32_t> best;  // predicted classes [B], of tokens [B*T] (tag), or ids [P]
  // classify, multilabel: [B, labels]; tag: [B*T, labels]; regression: [B, 1]; decoders: [P, vocabulary] of the
  // requested rows
  std::span<const double> logits;
  std::span<const double> embedding;  // embed: [B, N]
  std::span<const double> hidden;     // embed and clm with fetch_hidden: [B*T, N], padding included
};

class Engine {
 public:
  // Allocates no memory yet. `ranks`: see layers::ModelFactory.
  Engine(const Machine& machine, layers::ModelFactory factory, const EngineOptions& options,
         const layers::RankTable& ranks = {});
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  ~Engine();  // defined in the source file, so that the users of an engine do not compile it again

  Model& model() { return weights_->model(); }
  const Model& model() const { return weights_->model(); }
  Weights& weights() { return *weights_; }
  const Machine& machine() const { return machine_; }
  const EngineOptions& options() const { return options_; }
  const layers::ModelFactory& factory() const { return factory_; }
  // The host's copy of the step's scalars: inputs are read when a step begins, outputs are valid when it has ended.
  layers::StepState& state() { return state_; }
  // Sets the random numbers and the scalars of the update for the next step.
  void begin_step(std::uint64_t seed, const UpdateStep& step);

  // Makes the plans of a training step (or of an evaluation) for this batch's shape. Only the shape is read.
  void plan_training(const Batch& batch);
  void plan_evaluation(const Batch& batch);
  // Memory of all plans so far. `accumulate` is for the FLOPs: micro-batches per step, each at the largest shape.
  MemoryTable memory_table(std::int64_t accumulate = 1) const;
  // All tensors in memory at the peak of the largest plan, largest first. Those of plans have lifetimes.
  std::vector<plan::PlannedTensor> tensors_at_peak() const;
  // Calls and FLOPs of one training step with one micro-batch, by op, over all its walks.
  std::vector<plan::OpCount> op_counts() const;
  // Without the memory of the driver, which is known once graphs were recorded.
  std::size_t planned_bytes() const {
    return device_steps_ ? block_layout().bytes() : weights_->bytes() + step_bytes();
  }

  std::size_t driver_bytes() const {
    return device_steps_ ? device_steps_->driver_memory().modules + device_steps_->driver_memory().graphs : 0;
  }

  // Number of device calls in a step without accumulation, known once its graph was recorded; nullopt without graphs.
  std::optional<std::int64_t> launches() const {
    if (!device_steps_) return std::nullopt;
    return static_cast<std::int64_t>(device_steps_->graph_calls());
  }

  // Runs one optimiser step on the micro-batches and skips those without sequences. The caller runs
  // begin_step() and sets the rank inputs before. The call sets loss, correct, square sums, rank outputs and
  // scalars.finite. If finite == 0, no weight has changed, except those that were applied at once before that was seen.
  void train(std::span<const Batch> parts);
  // The same step in two parts: on a device the step runs when start() returns, and send_ahead() can send the inputs of
  // the next step meanwhile. It does so for a step of one micro-batch only.
  void start(std::span<const Batch> parts);
  bool runs_beside() const { return device_steps_ != nullptr; }
  void send_ahead(std::span<const Batch> parts);
  void finish();
  Scores evaluate(const Batch& batch);

  // Makes an empty cache of keys and values for `sequences` texts of up to `capacity` tokens. Throws InputError if the
  // model cannot generate.
  void open_cache(std::int64_t sequences, std::int64_t capacity);
  // Appends the batch's tokens to those in the cache and returns logits. models/decoder/decoder.h defines the contents
  // of the batch.
  Scores decode(const Batch& batch);

  // Allocates memory for the weights, with zeros if they had none, and for all plans so far. Later plans may need more:
  // on a device that takes another block, and the weights move.
  void allocate();
  // Frees the memory of steps until the next step or evaluation. Of a machine whose memory the host can read.
  void free_step();

  // Call it after a write to the weights from outside: the merged factors are stale.
  void weights_changed() { prepared_ = false; }
  // Replaces this model by one that the same factory builds with other ranks. `fill` receives the old and the new
  // weights, both in memory. All plans are dropped.
  using Fill = std::function<void(Weights& from, Weights& to)>;
  void replace(const layers::RankTable& ranks, const Fill& fill);

  void set_profile(plan::Profile* profile) { profile_ = profile; }

 private:
  enum class Phase : std::uint8_t { begin, prepare, train, evaluate, finish, clear, decode };
  // With B, T and the number of requested rows, or 0.
  using Key = std::tuple<Phase, std::int64_t, std::int64_t, std::int64_t>;
  static Key key(Phase phase) { return {phase, 0, 0, 0}; }
  static Key key(Phase phase, const Batch& batch) {
    return {phase, batch.sequences, batch.length, batch.has("logit_rows") ? batch["logit_rows"].elements() : 0};
  }

  void adopt(std::unique_ptr<Model> model);
  void declare_weights(Model& model);  // to the keeper
  std::vector<ParameterState> states_of(const Model& model) const;
  // Lists the inputs of a step with these contents; null: of a part of a step that reads no batch.
  void declare(const Batch* batch);
  template <class Body>
  void record(const Key& key, const Batch* batch, Body&& body);
  template <class Body>
  void replay(const Key& key, Body&& body);
  // Binds the inputs and runs the replays of `key`: on a device as one graph, or call by call.
  enum class Way : std::uint8_t { graph, calls };
  void study(const Batch& batch);  // for a keeper that decides by the sizes of a step
  template <class Replays>
  void run(const DeviceSteps::Key& key, const Batch* batch, Way way, const Replays& replays);
  void run_step(std::span<const Batch> parts);
  void begin_step();
  void micro_step(const Batch& part);
  void finish_step();
  std::size_t input_bytes() const;
  const plan::Plan* largest_plan() const;  // null without plans
  void add_flops(MemoryTable& table, std::int64_t accumulate) const;
  std::size_t step_bytes() const { return slabs_bytes() + region_bytes_; }
  std::size_t slabs_bytes() const;
  DeviceBlock::Layout block_layout() const;
  void allocate_block();
  void bind_step(void* base);
  void prepare();
  void send_state();
  void receive_state();

  void begin_walk(layers::Walk& walk);
  void prepare_walk(layers::Walk& walk);
  void train_walk(layers::Walk& walk, const Batch& batch);
  void poll_in(layers::Walk& walk) const;
  bool updates_in_backward() const;
  void evaluate_walk(layers::Walk& walk, const Batch& batch);
  void finish_walk(layers::Walk& walk);
  Scores run_evaluation(const Key& key, const Batch& batch);
  void fetch(const layers::Outputs& outputs);
  void fetch(const Tensor& tensor, std::vector<double>& numbers);

  Machine machine_;
  layers::ModelFactory factory_;
  EngineOptions options_;
  layers::StepState state_;
  layers::StepState* device_state_ = nullptr;  // the address that kernels use
  std::unique_ptr<Weights> weights_;
  std::unique_ptr<layers::Sink> sink_;
  std::unique_ptr<WeightUpdate> update_;
  std::map<Key, plan::Plan> plans_;
  std::size_t region_bytes_ = 0;
  plan::Arena step_arena_;
  DeviceBlock block_;  // replaces the arenas of weights and steps if the backend cannot read host memory
  std::byte* step_memory_ = nullptr;
  std::unique_ptr<layers::KeyValueCache> cache_;
  plan::Arena cache_arena_;
  bool prepared_ = false;
  std::vector<std::int32_t> best_;
  std::vector<double> logits_, embedding_, hidden_;
  plan::Profile* profile_ = nullptr;
  std::unique_ptr<DeviceSteps> device_steps_;  // if the backend cannot read host memory
  plan::Inputs inputs_;                        // of the current step
};

}  // namespace comera::engine
