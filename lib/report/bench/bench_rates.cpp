// Measures the peak rates of the machine: multiply-adds, products and copies.
#include <algorithm>
#include <numeric>

#include "kernels/cast.h"
#include "kernels/host/cpu_backend.h"
#include "kernels/host/thread_pool.h"
#include "kernels/linear.h"
#include "lib/core/process.h"
#include "lib/core/terminal/stop.h"
#include "lib/core/terminal/task_progress.h"
#include "lib/engine/weights.h"
#include "lib/layers/training/parameter.h"
#include "lib/report/bench/bench.h"

namespace comera::report {
namespace {

constexpr int tries = 8;

// Returns the seconds per call of the fastest try. Each try makes `calls` calls and waits once; 0 if it fails.
template <class Args>
double fastest(const plan::Machine& machine, const kernels::Op<Args>& op, const Args& args, int calls) {
  kernels::Context context = machine.context();
  const std::size_t workspace = op.workspace_bytes ? op.workspace_bytes(context, args) : 0;
  plan::Arena scratch(*machine.backend, std::max<std::size_t>(workspace, 1), "the measurement of the machine's peak");
  context.workspace = scratch.data(), context.workspace_bytes = workspace;
  double best = 0;
  TaskProgress task("timing the machine", tries);
  for (int i = 0; i < tries; ++i) {
    check_stop();
    const double start = wall_seconds();
    for (int j = 0; j < calls; ++j)
      if (!op.run || op.run(context, args) != kernels::Status::ok) return 0;
    if (machine.backend->device.wait && machine.backend->device.wait(context) != kernels::Status::ok) return 0;
    const double seconds = (wall_seconds() - start) / calls;
    best = i == 0 ? seconds : std::min(best, seconds);
    task.advance();
  }
  return best;
}

// Random numbers, because zeros draw less power and allow a higher clock rate.
void fill_random(const plan::Machine& machine, void* data, std::int64_t elements) {
  const plan::Tensor tensor{data, machine.dtype, {elements}};
  std::vector<std::byte> bytes(tensor.bytes());
  const plan::Tensor host{bytes.data(), tensor.dtype, tensor.shape, -1};
  std::uint64_t random = 1;
  for (std::int64_t i = 0; i < elements; ++i)
    layers::store(host, i, static_cast<double>(next_random(random) % 1000) / 500 - 1);
  engine::write(machine, tensor, bytes);
}

bool is_device(const plan::Machine& machine) { return machine.backend->device.open != nullptr; }

bool has_multiply_adds(const plan::Machine& machine) {
  return !is_device(machine) && kernels::run_multiply_adds(machine.backend->variant, machine.dtype, 1) > 0;
}

// Runs all threads for a while and adds the best short try of each thread. On a shared machine some tries are
// undisturbed.
double registers_gflops(const plan::Machine& machine) {
  constexpr std::int64_t rounds = 1 << 17;  // some tenths of a millisecond
  constexpr double while_seconds = 0.1;
  const kernels::Context context = machine.context();
  const auto* pool = static_cast<const kernels::ThreadPool*>(context.stream);
  std::vector<double> best(static_cast<std::size_t>(pool ? pool->threads() : 1));
  const double begin = wall_seconds();
  kernels::parallel_for(context, std::ssize(best), [&](std::int64_t thread) {
    for (double start = wall_seconds(), end = 0; end < begin + while_seconds; start = end) {
      const double flops = kernels::run_multiply_adds(machine.backend->variant, machine.dtype, rounds);
      end = wall_seconds();
      best[static_cast<std::size_t>(thread)] =
          std::max(best[static_cast<std::size_t>(thread)], flops / (end - start) * 1e-9);
    }
  });
  return std::accumulate(best.begin(), best.end(), 0.0);
}

double products_gflops(const plan::Machine& machine) {
  const std::int64_t size = is_device(machine) ? 4096 : 1024;
  const std::size_t matrix = static_cast<std::size_t>(size * size) * size_of(machine.dtype);
  plan::Arena memory(*machine.backend, 3 * matrix, "the measurement of the machine's peak");
  auto* base = static_cast<char*>(memory.data());
  fill_random(machine, base, 2 * size * size);
  const kernels::MatMul product{.m = size,
                                .n = size,
                                .k = size,
                                .a = base,
                                .lda = size,
                                .b = base + matrix,
                                .ldb = size,
                                .c = base + 2 * matrix,
                                .ldc = size};
  const double seconds = fastest(machine, machine.backend->matmul, product, is_device(machine) ? 4 : 1);
  return seconds > 0 ? kernels::flops(product) / seconds * 1e-9 : 0;
}

}  // namespace

double measure_peak_gflops(const plan::Machine& machine) {
  return has_multiply_adds(machine) ? registers_gflops(machine) : products_gflops(machine);
}

const char* peak_work(const plan::Machine& machine) {
  return has_multiply_adds(machine) ? "multiply-adds in registers" : "products of large matrices";
}

double measure_copy_gb_per_s(const plan::Machine& machine) {
  const std::int64_t count = std::int64_t{1} << (is_device(machine) ? 27 : 24);
  plan::Machine plain = machine;
  plain.dtype = kernels::parameter_type(machine.dtype);  // a cast of parameters to their own type is a copy
  const std::size_t bytes = static_cast<std::size_t>(count) * size_of(plain.dtype);
  plan::Arena memory(*machine.backend, 2 * bytes, "the measurement of the machine's peak");
  const kernels::CastTensor tensor{count, memory.data(), static_cast<char*>(memory.data()) + bytes};
  const double seconds = fastest(plain, machine.backend->cast, kernels::Cast{&tensor, 1}, is_device(machine) ? 4 : 1);
  return seconds > 0 ? 2 * static_cast<double>(bytes) / seconds * 1e-9 : 0;
}

}  // namespace comera::report
