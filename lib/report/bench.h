// Times of a training step and of its parts, beside what the machine can do at most.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lib/report/bench_samples.h"
#include "lib/report/json.h"
#include "lib/train/step.h"

namespace comera::report {

struct BenchReport {
  Json settings = Json::object();  // model, form, rank, batch, seq, threads, ...: on every line that scripts read
  std::vector<BenchRow> rows;
  double peak_gflops = 0;  // of this machine at the same number of threads, under the instruction set of the first row
  std::string peak_work;   // the work that peak_gflops was measured with
  double copy_gb_per_s = 0;  // read and written
};

// Whole steps first, then as many with a clock around every op.
std::vector<BenchRow> time_steps(train::Engine& engine, data::Task task, std::int64_t vocabulary, std::int64_t labels,
                                 const BenchOptions& options);

// The whole step of `other`, measured elsewhere or otherwise, behind those that the report has. What it took of memory
// is left out: that of a process that measured more than one is not known.
void add_step(BenchReport& report, const BenchReport& other);

// Milliseconds that the row's FLOPs and bytes take at the machine's measured rates, the longer of the two; none where
// either is unknown.
std::optional<double> bound_ms(const BenchReport& report, const BenchRow& row);

// One linear layer alone, batch * length tokens: merging of halves, forward, backward with dX and the gradients of all
// cores.
struct LinearBench {
  std::int64_t in = 0, out = 0;
  layers::Form form = layers::Form::tt;
  std::vector<std::int64_t> modes, ranks;  // of lib/tt/modes.h; empty for dense
};
BenchReport bench_linear(const plan::Machine& machine, const LinearBench& bench, const BenchOptions& options);

// One word table alone, batch * length ids drawn with equal chances.
struct LookupBench {
  std::int64_t rows = 0, columns = 0;
  layers::Form form = layers::Form::ttm;
  std::vector<std::int64_t> modes, ranks;  // empty for dense
};
BenchReport bench_lookup(const plan::Machine& machine, const LookupBench& bench, const BenchOptions& options);

// Rates that no kernel passes, the best of several tries with all threads of the machine's stream: multiply-adds in
// registers on a CPU (kernels/cpu_backend.h), products of large random matrices elsewhere; copies.
double measure_peak_gflops(const plan::Machine& machine);
const char* peak_work(const plan::Machine& machine);  // "multiply-adds in registers"
double measure_copy_gb_per_s(const plan::Machine& machine);

Table bench_table(const BenchReport& report, bool with_settings);
Json to_json(const BenchReport& report);
std::string to_html(const BenchReport& report);

}  // namespace comera::report
