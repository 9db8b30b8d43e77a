// A layer alone, without a model around it. Of this room only.
#pragma once

#include <memory>

#include "lib/layers/builder.h"
#include "lib/layers/sink.h"
#include "lib/report/bench.h"

namespace comera::report {

// The tables of a model for one layer. A derived class builds its layer, then calls take_memory().
class LayerAlone {
 public:
  explicit LayerAlone(const plan::Machine& machine);
  virtual ~LayerAlone() = default;
  LayerAlone(const LayerAlone&) = delete;
  LayerAlone& operator=(const LayerAlone&) = delete;

  // Forward and backward over the tokens of that set, a copy of the data elsewhere in memory.
  virtual void tokens(layers::Walk& walk, int set) = 0;
  // The work that does not depend on the number of tokens: halves and copies of weights before them, gradients of cores
  // after them.
  void step(layers::Walk& walk);
  void cores(layers::Walk& walk);

  virtual std::size_t set_bytes() const = 0;
  virtual void make_sets(int sets) = 0;
  // The least that forward and backward over one set move: every operand once.
  virtual double moved_bytes() const = 0;
  // The FLOPs without padding, of the plan's FLOPs, which count it.
  virtual double least_flops(double planned) const { return planned; }

  const plan::Machine& machine() const { return machine_; }
  std::int64_t parameters() const { return parameters_.count(); }
  bool has_cores() const { return !trains_.empty(); }

 protected:
  layers::Builder builder();
  void take_memory();
  // Random numbers in [-1, 1], the same everywhere, again from the start after some million.
  void fill(const plan::Tensor& tensor, std::uint64_t seed) const;
  virtual void prepare(layers::Walk& walk) = 0;
  virtual void finish(layers::Walk& walk) = 0;

  plan::Machine machine_;
  layers::Parameters parameters_;
  std::vector<layers::TensorTrain> trains_;
  plan::Slab halves_, step_gradients_;
  layers::TtMerger merger_;
  layers::StreamWeights stream_weights_;
  double threshold_ = 0.01;
  std::int64_t dense_ = 0;
  std::unique_ptr<layers::AccumulateSink> sink_;

 private:
  plan::Arena weights_, slab_memory_;
};

// Rows "step" (all of it, waited for each time: what a caller waits), "tokens" (forward and backward) and "cores" (what
// is left, where there is any). On a device tokens are taken from as many sets in turn as keep its cache cold, one
// behind another without waiting.
BenchReport bench_layer(LayerAlone& layer, const train::MemoryMeter& memory, const BenchOptions& options);

}  // namespace comera::report
