// One linear layer alone: merging of halves, forward, backward with dX, gradients of cores.
#include "lib/core/process.h"
#include "lib/layers/linear.h"
#include "lib/report/bench.h"

namespace comera::report {
namespace {

using layers::Tensor;

// A model of one layer, put together as models are.
struct OneLayer {
  explicit OneLayer(const plan::Machine& machine, const LinearBench& layer)
      : machine(machine), parameters(machine.dtype), merger(trains, halves, step_gradients) {
    layers::Builder builder{machine.dtype, parameters, trains, halves, step_gradients, merger, threshold, dense};
    layers::LinearSpec spec{"layer", layer.out, layer.form, layer.modes, layer.ranks, layer.ranks};
    set = layers::LinearSet::make(builder, {spec}, layer.in, kernels::Activation::none);
    sink = std::make_unique<layers::AccumulateSink>(parameters, step_gradients);
    weights = plan::Arena(*machine.backend, parameters.bytes(), "the weights of the layer");
    parameters.bind(weights.data());
    parameters.initialise(1);
    slab_memory = plan::Arena(*machine.backend, halves.bytes() + step_gradients.bytes() + plan::alignment, "the halves of the layer");
    halves.bind(slab_memory.data());
    step_gradients.bind(static_cast<char*>(slab_memory.data()) + plan::aligned(halves.bytes()));
  }

  void run(layers::Walk& walk, const Tensor& x, const Tensor& dy, const Tensor& dx) {
    sink->begin(walk);
    merger.prepare(walk, threshold);
    layers::Pass pass{walk, layers::SavePolicy(layers::Recompute::none), 1, x.shape[0]};
    Tensor y, gradient = dy;
    set.forward(pass, {x, nullptr}, &y);
    walk.drop(y);
    walk.backward_begins();
    set.backward(pass, *sink, &gradient, dx, false);
    merger.finish(walk, *sink, threshold);
    sink->release(walk);
    walk.end();
  }

  plan::Machine machine;
  layers::Parameters parameters;
  std::vector<layers::TensorTrain> trains;
  plan::Slab halves, step_gradients;
  layers::TtMerger merger;
  double threshold = 0.01;
  std::int64_t dense = 0;
  layers::LinearSet set;
  std::unique_ptr<layers::AccumulateSink> sink;
  plan::Arena weights, slab_memory;
};

void fill(const Tensor& tensor, std::uint64_t seed) {
  for (std::int64_t i = 0; i < tensor.elements(); ++i) layers::store(tensor, i, static_cast<double>((i * 2654435761u + seed) % 1000) / 500.0 - 1);
}

}  // namespace

BenchReport bench_linear(const plan::Machine& machine, const LinearBench& bench, const BenchOptions& options) {
  train::MemoryMeter memory;
  OneLayer layer(machine, bench);
  const std::int64_t tokens = options.batch * options.length;
  const std::size_t x_bytes = plan::aligned(static_cast<std::size_t>(tokens * bench.in) * size_of(machine.dtype));
  plan::Arena data(*machine.backend, 2 * x_bytes + static_cast<std::size_t>(tokens * bench.out) * size_of(machine.dtype), "the tokens of the layer");
  auto* base = static_cast<char*>(data.data());
  const Tensor x{base, machine.dtype, {tokens, bench.in}}, dx{base + x_bytes, machine.dtype, {tokens, bench.in}};
  const Tensor dy{base + 2 * x_bytes, machine.dtype, {tokens, bench.out}};
  fill(x, 1), fill(dy, 2);
  plan::Plan plan;
  layers::Walk recording(machine, plan);
  layer.run(recording, x, dy, dx);
  plan::Arena arena(*machine.backend, plan.bytes, "the step of the layer");
  std::vector<double> ms;
  for (int i = 0; i < options.warmup + options.repetitions; ++i) {
    layers::Walk walk(machine, plan, arena.data());
    const double start = wall_seconds();
    layer.run(walk, x, dy, dx);
    if (i >= options.warmup) ms.push_back(1e3 * (wall_seconds() - start));
  }
  BenchReport report;
  report.rows.push_back({.work = "step", .ms = spread_of(ms), .flops = plan.flops(), .peak_bytes = memory.peak(), .joules = {}});
  report.settings["parameters"] = layer.parameters.count();
  return report;
}

}  // namespace comera::report
