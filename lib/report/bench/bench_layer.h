// A layer for benches, without a model. For this room only.
#pragma once

#include <memory>

#include "lib/layers/training/builder.h"
#include "lib/layers/training/sink.h"
#include "lib/report/bench/bench.h"

namespace comera::report {

// Provides the tables of a model for one layer. A derived class builds its layer, then calls take_memory().
class LayerAlone {
 public:
  explicit LayerAlone(const plan::Machine& machine);
  virtual ~LayerAlone() = default;
  LayerAlone(const LayerAlone&) = delete;
  LayerAlone& operator=(const LayerAlone&) = delete;

  // Runs forward and backward over the tokens of `set`, a copy of the data at another address.
  virtual void tokens(layers::Walk& walk, int set) = 0;
  // Runs the work that does not depend on the number of tokens: before them the merged factors and the copies of
  // weights, after them the gradients of cores.
  void step(layers::Walk& walk);
  void cores(layers::Walk& walk);

  virtual std::size_t set_bytes() const = 0;
  virtual void make_sets(int sets) = 0;
  // The least number of bytes that forward and backward over one set move: every operand once.
  virtual double moved_bytes() const = 0;
  // The FLOPs without padding. `planned`: the plan's FLOPs, which include padding.
  virtual double least_flops(double planned) const { return planned; }

  const plan::Machine& machine() const { return machine_; }
  std::int64_t parameters() const { return parameters_.count(); }
  bool has_cores() const { return !chains_.empty(); }

 protected:
  layers::Builder builder();
  void take_memory();
  // Fills with reproducible random numbers in [-1, 1]. They repeat after some million.
  void fill(const plan::Tensor& tensor, std::uint64_t seed) const;
  virtual void prepare(layers::Walk& walk) = 0;
  virtual void finish(layers::Walk& walk) = 0;

  plan::Machine machine_;
  layers::Parameters parameters_;
  std::vector<layers::ChainParameters> chains_;
  plan::Slab factors_, step_gradients_;
  layers::TtMerger merger_;
  layers::CastWeights cast_weights_;
  double threshold_ = 0.01;
  std::int64_t dense_ = 0;
  std::unique_ptr<layers::Sink> sink_;

 private:
  plan::Arena weights_, slab_memory_;
};

// Rows "step" (a whole step, with a wait after each), "tokens" (forward and backward) and "cores" (the rest, if there
// is any). On a device "tokens" alternates between enough sets to keep the device's cache cold, and launches several
// rounds without waiting.
BenchReport bench_layer(LayerAlone& layer, const engine::MemoryMeter& memory, const BenchOptions& options);

}  // namespace comera::report
