// Measures the times of a training step and of its parts, relative to the measured peak rates of the machine.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/engine/engine.h"
#include "lib/report/bench/bench_samples.h"
#include "lib/report/output/json.h"

namespace comera::report {

struct BenchReport {
  Json settings = Json::object();  // model, form, rank, batch, seq, threads, ...: on every line for scripts
  std::vector<BenchRow> rows;
  double peak_gflops = 0;  // of this machine with the same number of threads, for the instruction set of the first row
  std::string peak_work;   // the work that measured peak_gflops
  double copy_gb_per_s = 0;  // read and written bytes
};

// Times whole steps first, then the same number of steps op by op (lib/plan/profile.h).
std::vector<BenchRow> time_steps(engine::Engine& engine, data::Task task, std::int64_t vocabulary, std::int64_t labels,
                                 const BenchOptions& options);

// Milliseconds of a micro-batch and of what a step has beside its micro-batches, from steps of one and of two. Weights
// are zeros. Throws plan::OutOfMemory.
struct StepParts {
  double micro_batch = 0, rest = 0;
};
StepParts time_step_parts(engine::Engine& engine, data::Task task, std::int64_t vocabulary, std::int64_t labels,
                          const BenchOptions& options);

// Appends the whole step of `other`, measured elsewhere or with other settings, to the rows of the report. Its peak
// memory is left out: it is unknown for a process that measured more than one step.
void add_step(BenchReport& report, const BenchReport& other);

// Milliseconds for the row's FLOPs or bytes at the machine's measured rates, whichever is longer; none if either is
// unknown.
std::optional<double> bound_ms(const BenchReport& report, const BenchRow& row);

// Times one linear layer without a model, with batch * length tokens: merging of the factors, forward, backward with dX
// and the gradients of all cores.
struct LinearBench {
  std::int64_t in = 0, out = 0;
  layers::WeightForm form = {};
};
BenchReport bench_linear(const plan::Machine& machine, const LinearBench& bench, const BenchOptions& options);

// Times one word table without a model, with batch * length uniformly drawn ids.
struct LookupBench {
  std::int64_t rows = 0, columns = 0;
  layers::WeightForm form = {};
  bool zipf = false;  // the logarithms of the ids are uniform, not the ids
};
BenchReport bench_lookup(const plan::Machine& machine, const LookupBench& bench, const BenchOptions& options);

// Peak rates that no kernel exceeds: the best of several tries with all threads of the machine's queue. Multiply-adds
// in registers on a CPU (kernels/host/cpu_backend.h), products of large random matrices elsewhere; copies.
double measure_peak_gflops(const plan::Machine& machine);
const char* peak_work(const plan::Machine& machine);  // "multiply-adds in registers"
double measure_copy_gb_per_s(const plan::Machine& machine);

Table bench_table(const BenchReport& report, bool with_settings);
Json to_json(const BenchReport& report);
std::string to_html(const BenchReport& report);

}  // namespace comera::report
