// `comera doctor`.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "lib/core/error.h"
#include "lib/core/memory.h"
#include "lib/core/process.h"
#include "lib/core/terminal/log.h"
#include "lib/core/units.h"
#include "lib/engine/engine.h"
#include "lib/report/bench/bench.h"
#include "lib/report/bench/kernel_times.h"
#include "lib/report/output/fit.h"
#include "lib/train/optimizer.h"
#include "models/architecture.h"
#include "models/forms.h"
#include "tools/machine.h"
#include "tools/verbs.h"

namespace comera::tools {
namespace {

constexpr int pinned_steps = 3;  // on a device: call by call, recorded, launched

// A small encoder with TT layers, a TTM table and dropout, and a batch with padding.
models::EncoderSpec pinned_spec() {
  models::EncoderSpec spec;
  spec.vocabulary = 97, spec.hidden = 64, spec.layers = 2, spec.heads = 4, spec.intermediate = 128;
  spec.positions = 32, spec.task = data::Task::classify, spec.labels = {"a", "b", "c"};
  models::FormRules rules;
  rules.form = models::Form::tt, rules.rank = rules.embedding_rank = 8;
  rules.order = 2, rules.embedding_order = 3;
  models::apply_forms(spec, models::weight_sites(spec), rules);
  return spec;
}

data::Batch pinned_batch(const models::EncoderSpec& spec) {
  constexpr std::int64_t sequences = 8, length = 16;
  data::Batch batch;
  batch.sequences = batch.counted = sequences, batch.length = length, batch.tokens = sequences * length;
  auto ids = batch.add("input_ids", DType::i32, {sequences, length}).as<std::int32_t>();
  auto types = batch.add("token_type_ids", DType::i32, {sequences, length}).as<std::int32_t>();
  for (std::size_t k = 0; k < ids.size(); ++k)
    ids[k] = static_cast<std::int32_t>(static_cast<std::int64_t>(k) * 7 % spec.vocabulary), types[k] = k % length > 9;
  auto lengths = batch.add("lengths", DType::i32, {sequences}).as<std::int32_t>();
  auto samples = batch.add("samples", DType::i64, {sequences}).as<std::int64_t>();
  auto labels = batch.add("labels", DType::i32, {sequences}).as<std::int32_t>();
  for (std::size_t b = 0; b < sequences; ++b) {
    lengths[b] = static_cast<std::int32_t>(length - b), labels[b] = static_cast<std::int32_t>(b % 3);
    samples[b] = static_cast<std::int64_t>(b);
  }
  return batch;
}

std::vector<double> pinned_losses(const plan::Machine& machine) {
  const models::EncoderSpec spec = pinned_spec();
  const data::Batch batch = pinned_batch(spec);
  const engine::EngineOptions how{.update = train::optimizer({.adamw = {.epsilon = 1e-3}})};
  engine::Engine engine(machine, models::factory_of(spec, machine.dtype), how);
  engine.allocate();
  engine.weights().initialise(11);
  std::vector<double> losses;
  for (int i = 0; i < pinned_steps; ++i) {
    engine.begin_step(5, {.step = i, .rates = {1e-3, 1e-3, 1e-3, 1e-3}});
    engine.train({&batch, 1});
    losses.push_back(engine.state().loss[0]);
  }
  return losses;
}

// Relative, as in scripts/check_gpu.sh: roundings of fp32 in another order; 4 u sqrt(n) with n tensors or factors.
double tolerance(const std::string& dtype) { return dtype == "fp32" ? 1e-5 : dtype == "tf32" ? 2e-2 : 0.12; }

// The largest relative difference from the reference in double.
double pinned_difference(const plan::Machine& machine) {
  const std::vector<double> exact = pinned_losses({&kernels::reference_backend(), DType::f64, nullptr}),
                            found = pinned_losses(machine);
  double largest = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const double difference = std::abs(found[i] - exact[i]) / std::abs(exact[i]);
    if (std::isnan(difference)) return difference;
    largest = std::max(largest, difference);
  }
  return largest;
}

std::string driver_version() {
  std::ifstream file("/proc/driver/nvidia/version");
  std::string line;
  return std::getline(file, line) ? line : "unknown";
}

FreeMemory memory_of(const plan::Machine& machine) {
  if (!machine.backend->device.free_bytes) return free_memory();
  std::size_t free = 0, total = 0;
  if (machine.backend->device.free_bytes(&free, &total) != kernels::Status::ok) return {};
  return {free, total};
}

report::Json examined(const OptionValues& values, const plan::Machine& machine, report::Table& kernels) {
  const bool device = machine.backend->device.open != nullptr;
  const FreeMemory memory = memory_of(machine);
  report::Json json = report::document("doctor");
  json["device"] = machine.backend->name;
  json["name"] = device ? std::string(machine.backend->variant) : cpu_name() + ", " + machine.backend->variant;
  json["driver"] = device ? report::Json(driver_version()) : report::Json();
  json["free_bytes"] = memory.free;
  json["total_bytes"] = memory.total;
  json["dtype"] = values.text("dtype");
  const double copy = report::measure_copy_gb_per_s(machine), peak = report::measure_peak_gflops(machine);
  json["copy_gb_per_s"] = copy;
  json["peak_gflops"] = peak;
  kernels = report::kernel_table(report::time_kernels(machine, device ? 4096 : 512), copy, peak);
  json["kernels"] = report::to_json(kernels);
  const double difference = pinned_difference(machine);
  json["pinned_difference"] = difference;
  json["pinned_tolerance"] = tolerance(values.text("dtype"));
  json["works"] = difference <= tolerance(values.text("dtype"));
  return json;
}

void print_facts(const report::Json& facts) {
  log_info("{:<12}{}", "device", facts["name"].get<std::string>());
  if (facts["driver"].is_string()) log_info("{:<12}{}", "driver", facts["driver"].get<std::string>());
  log_info("{:<12}{} of {} free", "memory", format_bytes(facts["free_bytes"].get<std::uint64_t>()),
           format_bytes(facts["total_bytes"].get<std::uint64_t>()));
  log_info("{:<12}{:.1f} GB/s read and written", "copies", facts["copy_gb_per_s"].get<double>());
  log_info("{:<12}{:.0f} GFLOP/s", "products", facts["peak_gflops"].get<double>());
}

}  // namespace

OptionTable doctor_table() {
  OptionTable table("doctor", "check that this device works: memory, kernels against their bounds, steps of a model");
  table.add(machine_options()).add(precision_options()).add({json_option()}).add(common_options());
  table.synonyms({"check", "diagnose", "selftest", "health"});
  table.common({"device", "dtype", "json"});
  table.example("comera doctor --device cuda --dtype bf16");
  return table;
}

int run_doctor(const OptionValues& values) {
  const OpenMachine open = open_machine(values, values.text("dtype"));
  report::Table kernels;
  const report::Json facts = examined(values, open.machine, kernels);
  const bool works = facts["works"].get<bool>();
  const double difference = facts["pinned_difference"].get<double>(), most = tolerance(values.text("dtype"));
  if (values.flag("json")) {
    print_out(report::dump(facts) + "\n");
  } else {
    print_facts(facts);
    print_out(report::render_for_stdout(kernels));
    if (works) log_info("{} steps of a model agree with the reference within {:.1e}", pinned_steps, difference);
  }
  if (!works)
    fail_run(
        "[doctor] {} steps of a model differ from the reference by {:.1e}, at most {:.1e} is rounding; this device "
        "computes wrong results: update its driver, or use another --device",
        pinned_steps, difference, most);
  return 0;
}

}  // namespace comera::tools
