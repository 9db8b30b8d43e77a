// Times of a training step and of its parts, beside what the machine can do at most.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/report/json.h"
#include "lib/train/step.h"

namespace comera::report {

struct Spread {
  double median = 0, min = 0, max = 0;
};
Spread spread_of(std::vector<double> samples);  // at least one

struct BenchRow {
  std::string work;        // "step", or the name of an op; "other" is what the ops do not cover
  std::int64_t calls = 1;  // per step
  Spread ms;
  double flops = 0;                         // per step, multiplications and additions of the products alone
  std::optional<std::uint64_t> peak_bytes;  // growth of the process since before the first arena
  std::optional<double> joules;             // per step, all packages
};

struct BenchReport {
  Json settings = Json::object();  // model, form, rank, batch, seq, threads, ...: on every line that scripts read
  std::vector<BenchRow> rows;
  double peak_gflops = 0;  // of this machine at the same number of threads
};

struct BenchOptions {
  int warmup = 2, repetitions = 5;
  std::int64_t batch = 32, length = 128;
  std::uint64_t seed = 1;
};

// Whole steps first, then as many with a clock around every op.
std::vector<BenchRow> time_steps(train::Engine& engine, data::Task task, std::int64_t vocabulary, std::int64_t labels, const BenchOptions& options);

// One linear layer alone, batch * length tokens: merging of halves, forward, backward with dX and the gradients of all cores.
struct LinearBench {
  std::int64_t in = 0, out = 0;
  layers::Form form = layers::Form::tt;
  std::vector<std::int64_t> modes, ranks;  // of lib/tt/modes.h; empty for dense
};
BenchReport bench_linear(const plan::Machine& machine, const LinearBench& bench, const BenchOptions& options);

// The best of some products of 1024 x 1024 matrices, all threads of the machine's stream at work.
double measure_peak_gflops(const plan::Machine& machine);

Table bench_table(const BenchReport& report, bool with_settings);
Json to_json(const BenchReport& report);

}  // namespace comera::report
