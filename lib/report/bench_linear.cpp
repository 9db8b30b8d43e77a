// One linear layer alone: merging of halves, forward, backward with dX, gradients of cores.
#include "lib/core/process.h"
#include "lib/layers/linear.h"
#include "lib/report/bench.h"
#include "lib/report/energy.h"

namespace comera::report {
namespace {

using layers::Tensor;

// A model of one layer, put together as models are.
struct OneLayer {
  explicit OneLayer(const plan::Machine& machine, const LinearBench& layer)
      : machine(machine), parameters(kernels::parameter_type(machine.dtype)), merger(trains, halves, step_gradients), stream_weights(machine.dtype) {
    layers::Builder builder{machine.dtype, parameters, trains, halves, step_gradients, merger, stream_weights, threshold, dense};
    layers::LinearSpec spec{"layer", layer.out, layer.form, layer.modes, layer.ranks, layer.ranks};
    set = layers::LinearSet::make(builder, {spec}, layer.in, kernels::Activation::none);
    sink = std::make_unique<layers::AccumulateSink>(parameters, step_gradients);
    weights = plan::Arena(*machine.backend, parameters.bytes(), "the weights of the layer");
    train::initialise(machine, parameters, weights.data(), 1);
    slab_memory = plan::Arena(*machine.backend, halves.bytes() + stream_weights.copies().bytes() + step_gradients.bytes(), "the halves of the layer");
    auto* base = static_cast<char*>(slab_memory.data());
    halves.bind(base);
    stream_weights.copies().bind(base += halves.bytes());
    step_gradients.bind(base + stream_weights.copies().bytes());
  }

  void run(layers::Walk& walk, const Tensor& x, const Tensor& dy, const Tensor& dx) {
    sink->begin(walk);
    merger.prepare(walk, threshold);
    stream_weights.prepare(walk);
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
  layers::StreamWeights stream_weights;
  double threshold = 0.01;
  std::int64_t dense = 0;
  layers::LinearSet set;
  std::unique_ptr<layers::AccumulateSink> sink;
  plan::Arena weights, slab_memory;
};

void fill(const plan::Machine& machine, const Tensor& tensor, std::uint64_t seed) {
  std::vector<std::byte> bytes(tensor.bytes());
  const Tensor host{bytes.data(), tensor.dtype, tensor.shape, -1};
  for (std::int64_t i = 0; i < tensor.elements(); ++i) layers::store(host, i, static_cast<double>((i * 2654435761u + seed) % 1000) / 500.0 - 1);
  train::write(machine, tensor, bytes);
}

}  // namespace

BenchReport bench_linear(const plan::Machine& machine, const LinearBench& bench, const BenchOptions& options) {
  train::MemoryMeter memory(machine);
  OneLayer layer(machine, bench);
  const std::int64_t tokens = options.batch * options.length;
  const std::size_t x_bytes = plan::aligned(static_cast<std::size_t>(tokens * bench.in) * size_of(machine.dtype));
  plan::Arena data(*machine.backend, 2 * x_bytes + static_cast<std::size_t>(tokens * bench.out) * size_of(machine.dtype), "the tokens of the layer");
  auto* base = static_cast<char*>(data.data());
  const Tensor x{base, machine.dtype, {tokens, bench.in}}, dx{base + x_bytes, machine.dtype, {tokens, bench.in}};
  const Tensor dy{base + 2 * x_bytes, machine.dtype, {tokens, bench.out}};
  fill(machine, x, 1), fill(machine, dy, 2);
  plan::Plan plan;
  layers::Walk recording(machine, plan);
  layer.run(recording, x, dy, dx);
  const bool on_device = !machine.backend->memory.host_accessible;
  const std::size_t step_bytes = plan::aligned(plan.bytes);
  plan::Arena arena(*machine.backend, step_bytes + (on_device ? train::DeviceSteps::input_places(plan.input_bytes) : 0), "the step of the layer");
  train::DeviceSteps steps(machine);
  if (on_device) steps.set_inputs(static_cast<std::byte*>(arena.data()) + step_bytes, plan.input_bytes);
  const auto step = [&](plan::InputStage* stage, plan::Pass pass) {
    layers::Walk walk(machine, plan, arena.data());
    walk.set_inputs(stage, pass);
    layer.run(walk, x, dy, dx);
  };
  std::vector<double> ms;
  EnergyMeter energy = EnergyMeter::of(machine.backend->device);
  for (int i = 0; i < options.warmup + options.repetitions; ++i) {
    if (i == options.warmup) energy.joules();
    const double start = wall_seconds();
    if (on_device) {
      steps.launch({&plan, true}, step);
      steps.wait();
    } else {
      step(nullptr, plan::Pass::all);
    }
    if (i >= options.warmup) ms.push_back(1e3 * (wall_seconds() - start));
  }
  BenchReport report;
  report.rows.push_back({.work = "step", .ms = spread_of(ms), .flops = plan.flops(), .peak_bytes = memory.peak(), .joules = {}});
  if (const auto joules = energy.joules()) report.rows.back().joules = *joules / options.repetitions;
  report.settings["parameters"] = layer.parameters.count();
  return report;
}

}  // namespace comera::report
