#include "lib/report/bench/kernel_times.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include "kernels/adagrad.h"
#include "kernels/attention.h"
#include "kernels/cross_entropy.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/linear.h"
#include "kernels/norm.h"
#include "kernels/optimizer.h"
#include "kernels/tt_linear.h"
#include "lib/core/error.h"
#include "lib/core/process.h"
#include "lib/core/terminal/stop.h"
#include "lib/engine/weights.h"
#include "lib/layers/training/parameter.h"
#include "lib/report/bench/bench_samples.h"

namespace comera::report {
namespace {

using kernels::Status;

constexpr std::int64_t width = 768, inner = 3072, rank = 32, heads = 12, length = 128, rows = 30522;
constexpr int calls_in_graph = 20, rounds = 5;
constexpr double warm_seconds = 0.05;

// Memory of the operands of one call, filled with reproducible numbers.
class Operands {
 public:
  explicit Operands(const plan::Machine& machine) : machine_(machine) {}

  void* activations(std::int64_t count) { return numbers(count, machine_.dtype); }
  void* parameters(std::int64_t count) { return numbers(count, kernels::parameter_type(machine_.dtype)); }
  const std::int32_t* ids(std::int64_t count, std::int64_t below) {
    std::vector<std::int32_t> values(static_cast<std::size_t>(count));
    std::uint64_t random = 1;
    for (std::int32_t& id : values)
      id = static_cast<std::int32_t>(next_random(random) % static_cast<std::uint64_t>(below));
    return static_cast<const std::int32_t*>(written(DType::i32, count, std::as_bytes(std::span(values))));
  }
  template <class T>
  const T* value(const T& one) {
    return static_cast<const T*>(written(DType::u8, sizeof one, std::as_bytes(std::span(&one, 1))));
  }
  double bytes() const { return static_cast<double>(bytes_); }

 private:
  // The numbers repeat, so that large tensors are filled fast. None is negative: the second moments are among them.
  void* numbers(std::int64_t count, DType dtype) {
    constexpr std::int64_t period = 1 << 14;
    const std::size_t size = size_of(dtype);
    std::vector<std::byte> bytes(static_cast<std::size_t>(count) * size);
    const plan::Tensor host{bytes.data(), dtype, {count}, -1};
    std::uint64_t random = 1;
    for (std::int64_t i = 0; i < std::min(count, period); ++i)
      layers::store(host, i, static_cast<double>(next_random(random) % 1000) / 1000);
    for (std::int64_t at = period; at < count; at += period)
      std::memcpy(bytes.data() + static_cast<std::size_t>(at) * size, bytes.data(),
                  static_cast<std::size_t>(std::min(period, count - at)) * size);
    return written(dtype, count, bytes);
  }
  void* written(DType dtype, std::int64_t count, std::span<const std::byte> bytes) {
    arenas_.emplace_back(*machine_.backend, bytes.size(), "the operands of a kernel");
    bytes_ += bytes.size();
    engine::write(machine_, {arenas_.back().data(), dtype, {count}, -1}, bytes);
    return arenas_.back().data();
  }

  const plan::Machine& machine_;
  std::vector<plan::Arena> arenas_;
  std::size_t bytes_ = 0;
};

void check(const plan::Machine& machine, const char* op, Status status) {
  if (status == Status::ok) return;
  const kernels::Device& device = machine.backend->device;
  fail_run("[doctor] the kernel {} failed on {} {}{}", op, machine.backend->name, machine.backend->variant,
           device.failure && status == Status::failed ? std::string(": ") + device.failure() : "");
}

// Seconds of one call: the median over rounds, after some that are not counted.
double seconds_of(const std::function<void()>& round, int calls) {
  std::vector<double> samples;
  const double start = wall_seconds();
  while (wall_seconds() < start + warm_seconds) round();
  for (int i = 0; i < rounds; ++i) {
    const double begin = wall_seconds();
    round();
    samples.push_back((wall_seconds() - begin) / calls);
  }
  return spread_of(std::move(samples)).median;
}

class Timer {
 public:
  explicit Timer(const plan::Machine& machine) : machine_(machine) {}

  template <class Args>
  void time(const kernels::Op<Args>& op, std::string shape, const Args& args, const Operands& operands) {
    if (!op.run) return;
    check_stop();
    kernels::Context context = machine_.context();
    context.workspace_bytes = op.workspace_bytes ? op.workspace_bytes(context, args) : 0;
    const plan::Arena workspace(*machine_.backend, std::max<std::size_t>(context.workspace_bytes, 1), "a workspace");
    context.workspace = workspace.data();
    const auto call = [&] { return op.run(context, args); };
    const double seconds = machine_.backend->device.open ? on_device(op.name, context, call)
                                                         : seconds_of([&] { check(machine_, op.name, call()); }, 1);
    times.push_back({op.name, std::move(shape), 1e6 * seconds, operands.bytes(), kernels::flops(args)});
  }

  std::vector<KernelTime> times;

 private:
  double on_device(const char* op, const kernels::Context& context, const std::function<Status()>& call) const {
    const kernels::Device& device = machine_.backend->device;
    check(machine_, op, call());
    Status status = Status::ok;
    const plan::CallGraph graph = plan::record_calls(device, context, calls_in_graph, call, status);
    check(machine_, op, status);
    return seconds_of(
        [&] {
          check(machine_, op, device.launch_graph(context, graph.get()));
          check(machine_, op, device.wait(context));
        },
        calls_in_graph);
  }

  const plan::Machine& machine_;
};

void time_products(const plan::Machine& machine, std::int64_t tokens, Timer& timer) {
  const std::string dense = fmt::format("{} x {} -> {}", tokens, width, inner);
  {
    Operands o(machine);
    kernels::LinearForward a{.tokens = tokens, .in = width, .out = inner};
    a.x = o.activations(tokens * width), a.ldx = width, a.weight = o.activations(width * inner);
    a.y = o.activations(tokens * inner), a.ldy = inner;
    timer.time(machine.backend->linear_forward, dense, a, o);
  }
  const std::string shape = fmt::format("{} x {} -> {}/{}", tokens, width, inner, rank);
  const auto output = [&](Operands& o) {
    kernels::TtOutput to;
    to.out = to.ldy = inner, to.rank = rank, to.right = o.activations(rank * inner);
    return to;
  };
  {
    Operands o(machine);
    kernels::TtLinearForward a;
    a.tokens = tokens, a.in = a.ldx = width, a.width = rank, a.outputs = 1;
    a.x = o.activations(tokens * width), a.left = o.activations(width * rank), a.t1 = o.activations(tokens * rank);
    a.output[0] = output(o), a.output[0].bias = o.parameters(inner), a.output[0].y = o.activations(tokens * inner);
    timer.time(machine.backend->tt_linear_forward, shape, a, o);
  }
  Operands o(machine);
  kernels::TtLinearBackward a;
  a.tokens = tokens, a.in = a.ldx = a.lddx = width, a.width = rank, a.outputs = 1;
  a.x = o.activations(tokens * width), a.left = o.activations(width * rank), a.t1 = o.activations(tokens * rank);
  a.u1 = o.activations(tokens * rank), a.dx = o.activations(tokens * width), a.d_left = o.parameters(width * rank);
  a.output[0] = output(o), a.output[0].dy = o.activations(tokens * inner);
  a.output[0].d_right = o.parameters(rank * inner), a.output[0].d_bias = o.parameters(inner);
  timer.time(machine.backend->tt_linear_backward, shape, a, o);
}

void time_rows(const plan::Machine& machine, std::int64_t tokens, Timer& timer) {
  const std::int64_t count = tokens * width;
  const std::string shape = fmt::format("{} x {}", tokens, width);
  {
    Operands o(machine);
    kernels::NormForward a;
    a.tokens = tokens, a.columns = width, a.x = o.activations(count), a.residual = o.activations(count);
    a.gain = o.parameters(width), a.shift = o.parameters(width), a.sum = o.activations(count);
    a.mean = o.parameters(tokens), a.rstd = o.parameters(tokens), a.y = o.activations(count);
    timer.time(machine.backend->norm_forward, shape, a, o);
  }
  {
    Operands o(machine);
    kernels::NormBackward a;
    a.tokens = tokens, a.columns = width, a.dy = o.activations(count), a.sum = o.activations(count);
    a.mean = o.parameters(tokens), a.rstd = o.parameters(tokens), a.gain = o.parameters(width);
    a.d_sum = o.activations(count), a.d_gain = o.parameters(width), a.d_shift = o.parameters(width);
    timer.time(machine.backend->norm_backward, shape, a, o);
  }
  {
    Operands o(machine);
    const kernels::ActivationForward a{kernels::Activation::gelu, count, o.activations(count), o.activations(count)};
    timer.time(machine.backend->activation_forward, shape, a, o);
  }
  Operands o(machine);
  const kernels::AddScaled a{count, 1e-3, o.activations(count), o.activations(count)};
  timer.time(machine.backend->add_scaled, shape, a, o);
}

void time_attention(const plan::Machine& machine, std::int64_t tokens, Timer& timer) {
  const std::int64_t batch = tokens / length, count = tokens * width;
  kernels::AttentionShape shape{.batch = batch, .queries = length, .keys = length, .heads = heads, .key_heads = heads};
  shape.head_size = width / heads, shape.scale = 1 / std::sqrt(static_cast<double>(shape.head_size));
  const std::string text = fmt::format("{} x {}, {} heads of {}", batch, length, heads, shape.head_size);
  const auto inputs = [&](auto& a, Operands& o) {
    a.shape = shape, a.ldq = a.ldk = a.ldv = a.ld_out = width;
    a.q = o.activations(count), a.k = o.activations(count), a.v = o.activations(count);
  };
  {
    Operands o(machine);
    kernels::AttentionForward a;
    inputs(a, o), a.out = o.activations(count), a.lse = o.parameters(batch * heads * length);
    timer.time(machine.backend->attention_forward, text, a, o);
  }
  Operands o(machine);
  kernels::AttentionBackward a;
  inputs(a, o), a.out = o.activations(count), a.d_out = o.activations(count);
  a.dq = o.activations(count), a.dk = o.activations(count), a.dv = o.activations(count);
  timer.time(machine.backend->attention_backward, text, a, o);
}

// A look-up moves only its own rows of the table, so the bytes are not those of the operands.
void time_tables(const plan::Machine& machine, std::int64_t tokens, Timer& timer) {
  const std::int64_t chunk = 4096, targets = std::max<std::int64_t>(tokens / 8, 1);
  {
    Operands o(machine), moved(machine);
    kernels::EmbeddingForward a;
    a.bags = {tokens, tokens, o.ids(tokens, rows)}, a.rows = rows, a.columns = width;
    a.table = o.parameters(rows * width), a.y = moved.activations(tokens * width);
    timer.time(machine.backend->embedding_forward, fmt::format("{} of {} x {}", tokens, rows, width), a, moved);
    if (!timer.times.empty())
      timer.times.back().bytes += static_cast<double>(static_cast<std::size_t>(tokens * width) *
                                                      size_of(kernels::parameter_type(machine.dtype)));
  }
  Operands o(machine);
  kernels::CrossEntropyChunk a;
  a.rows = targets, a.columns = a.ld = chunk, a.start = true, a.logits = o.activations(targets * chunk);
  a.targets = o.ids(targets, chunk), a.maximum = o.parameters(targets), a.sum = o.parameters(targets);
  a.target_logit = o.parameters(targets), a.best = const_cast<std::int32_t*>(o.ids(targets, chunk));
  timer.time(machine.backend->cross_entropy_chunk, fmt::format("{} x {}", targets, chunk), a, o);
}

void time_update(const plan::Machine& machine, std::int64_t tokens, Timer& timer) {
  const std::int64_t count = tokens * 1024;
  const std::string shape = fmt::format("{} numbers", count);
  const kernels::Backend& backend = *machine.backend;
  const kernels::AdamwScalars step{.learning_rate = 1e-4};
  {
    Operands o(machine);
    const kernels::AdamwTensor tensor{
        count, o.parameters(count), o.parameters(count), o.parameters(count), o.parameters(count), o.value(step)};
    timer.time(backend.adamw, shape, {&tensor, 1, o.value(kernels::StepScalars{})}, o);
  }
  {
    Operands o(machine);
    const kernels::AdagradTensor tensor{count, o.parameters(count), o.parameters(count), o.parameters(count),
                                        o.value(step)};
    timer.time(backend.adagrad, shape, {.tensors = &tensor, .count = 1, .scalars = o.value(kernels::StepScalars{})}, o);
  }
  Operands o(machine);
  const kernels::SgdTensor tensor{count, o.parameters(count), o.parameters(count), o.value(step)};
  timer.time(backend.sgd, shape, {&tensor, 1, o.value(kernels::StepScalars{})}, o);
}

}  // namespace

std::vector<KernelTime> time_kernels(const plan::Machine& machine, std::int64_t tokens) {
  COMERA_CHECK(tokens >= length && tokens % length == 0);
  Timer timer(machine);
  for (const auto& time : {time_products, time_rows, time_attention, time_tables, time_update})
    time(machine, tokens, timer);
  return std::move(timer.times);
}

Table kernel_table(const std::vector<KernelTime>& times, double copy_gb_per_s, double peak_gflops) {
  Table table;
  table.columns = {{"kernel", "kernel"},
                   {"shape", "shape"},
                   {"bytes", "bytes", Unit::bytes},
                   {"microseconds", "us"},
                   {"share_of_bound", "of the bound", Unit::share}};
  table.columns.back().note = "of the bound: the time that bytes and products need at least; -: a cache held the bytes";
  for (const KernelTime& time : times) {
    Cell share;  // none where caches hold the bytes, so that the rate of the memory is no bound
    if (copy_gb_per_s > 0 && peak_gflops > 0) {
      const double bound = 1e-3 * std::max(time.bytes / copy_gb_per_s, time.flops / peak_gflops);
      if (bound <= time.microseconds) share = bound / time.microseconds;
    }
    table.rows.push_back({time.op, time.shape, static_cast<std::int64_t>(time.bytes), time.microseconds, share});
  }
  return table;
}

}  // namespace comera::report
