#include "lib/report/bench/bench_layer.h"

#include <algorithm>
#include <functional>

#include "lib/core/process.h"
#include "lib/engine/device_steps.h"
#include "lib/engine/weights.h"

namespace comera::report {
namespace {

constexpr std::size_t cold_bytes = std::size_t{1} << 29;  // ten times the largest cache of a GPU
constexpr int most_sets = 16;

using Body = std::function<void(layers::Walk&, int set)>;

// Walks of one plan, each with separate memory. On a device they are one graph.
class Walks {
 public:
  Walks(const plan::Machine& machine, int sets, Body body)
      : machine_(machine), sets_(sets), body_(std::move(body)), steps_(machine) {
    layers::Walk recording(machine, plan_);
    body_(recording, 0);
    recording.end();
    stride_ = plan::aligned(plan_.bytes);
    const auto count = static_cast<std::size_t>(sets);
    arena_ = plan::Arena(*machine.backend, count * stride_, "the step of the layer");
  }

  double flops() const { return plan_.flops(); }
  std::optional<std::int64_t> launches() const {
    if (!on_device()) return std::nullopt;
    return static_cast<std::int64_t>(steps_.graph_calls()) / sets_;
  }

  // Milliseconds per walk, averaged over `rounds` rounds of all sets.
  double milliseconds(int rounds) {
    const double start = wall_seconds();
    for (int i = 0; i < rounds; ++i) run();
    if (on_device()) steps_.wait();
    return 1e3 * (wall_seconds() - start) / (rounds * sets_);
  }

 private:
  bool on_device() const { return !machine_.backend->memory.host_accessible; }
  void run() {
    const auto walks = [&] {
      for (int set = 0; set < sets_; ++set) {
        layers::Walk walk(machine_, plan_, static_cast<char*>(arena_.data()) + static_cast<std::size_t>(set) * stride_);
        body_(walk, set);
        walk.end();
      }
    };
    if (on_device()) return steps_.launch({&plan_, true}, inputs_, walks);
    walks();
  }

  plan::Machine machine_;
  int sets_;
  Body body_;
  plan::Plan plan_;
  std::size_t stride_ = 0;
  plan::Arena arena_;
  engine::DeviceSteps steps_;
  plan::Inputs inputs_;  // none
};

}  // namespace

LayerAlone::LayerAlone(const plan::Machine& machine)
    : machine_(machine),
      parameters_(kernels::parameter_type(machine.dtype)),
      merger_(chains_, factors_, step_gradients_),
      cast_weights_(machine.dtype) {}

layers::Builder LayerAlone::builder() {
  return {machine_.dtype, parameters_, chains_, factors_, step_gradients_, merger_, cast_weights_, threshold_, dense_};
}

void LayerAlone::take_memory() {
  sink_ = layers::make_accumulate_sink(parameters_, step_gradients_);
  weights_ = plan::Arena(*machine_.backend, parameters_.bytes(), "the weights of the layer");
  engine::initialise(machine_, parameters_, weights_.data(), 1);
  const std::size_t copies = cast_weights_.copies().bytes();
  slab_memory_ =
      plan::Arena(*machine_.backend, factors_.bytes() + copies + step_gradients_.bytes(), "the factors of the layer");
  auto* base = static_cast<char*>(slab_memory_.data());
  factors_.bind(base);
  cast_weights_.copies().bind(base += factors_.bytes());
  step_gradients_.bind(base + copies);
}

void LayerAlone::fill(const plan::Tensor& tensor, std::uint64_t seed) const {
  constexpr std::int64_t period = 1 << 20;
  std::vector<std::byte> bytes(tensor.bytes());
  const plan::Tensor host{bytes.data(), tensor.dtype, tensor.shape, -1};
  const std::int64_t first = std::min(period, tensor.elements());
  for (std::int64_t i = 0; i < first; ++i)
    layers::store(host, i, static_cast<double>(next_random(seed) % 1000) / 500.0 - 1);
  const std::size_t repeated = static_cast<std::size_t>(first) * size_of(tensor.dtype);
  for (std::size_t at = repeated; at < bytes.size(); at += repeated)
    std::copy_n(bytes.begin(), std::min(repeated, bytes.size() - at), bytes.begin() + static_cast<std::ptrdiff_t>(at));
  engine::write(machine_, tensor, bytes);
}

void LayerAlone::step(layers::Walk& walk) {
  sink_->begin(walk);
  prepare(walk);
  tokens(walk, 0);
  finish(walk);
  sink_->release(walk);
}

void LayerAlone::cores(layers::Walk& walk) {
  sink_->begin(walk);
  prepare(walk);
  finish(walk);
  sink_->release(walk);
}

BenchReport bench_layer(LayerAlone& layer, const engine::MemoryMeter& memory, const BenchOptions& options) {
  const kernels::Device& device = layer.machine().backend->device;
  BenchReport report;
  const auto row_of = [&](const char* work, int sets, int rounds, const Body& body) {
    Walks walks(layer.machine(), sets, body);
    BenchRow row = time_samples(device, options, work, [&] { return walks.milliseconds(rounds); });
    if (row.joules) *row.joules /= sets * rounds;
    row.flops = walks.flops();
    row.launches = walks.launches();
    if (report.rows.empty()) row.peak_bytes = memory.peak();
    return row;
  };
  layer.make_sets(1);
  report.rows.push_back(row_of("step", 1, 1, [&](layers::Walk& walk, int) { layer.step(walk); }));
  const bool asynchronous = device.open != nullptr;
  const int sets = asynchronous ? std::clamp(static_cast<int>(cold_bytes / layer.set_bytes()), 1, most_sets) : 1;
  if (sets > 1) layer.make_sets(sets);
  const int rounds = asynchronous ? 4 : 1;  // launched without waiting in between
  report.rows.push_back(row_of("tokens", sets, rounds, [&](layers::Walk& walk, int set) { layer.tokens(walk, set); }));
  report.rows.back().moved_bytes = layer.moved_bytes();
  report.rows.back().flops = layer.least_flops(report.rows.back().flops);
  if (layer.has_cores())
    report.rows.push_back(row_of("cores", 1, rounds, [&](layers::Walk& walk, int) { layer.cores(walk); }));
  report.settings["parameters"] = layer.parameters();
  return report;
}

}  // namespace comera::report
