#include "lib/report/bench/bench.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "lib/core/error.h"
#include "lib/core/process.h"
#include "lib/core/terminal/stop.h"
#include "lib/core/terminal/task_progress.h"
#include "lib/report/output/html.h"
#include "lib/train/chain_sizes.h"

namespace comera::report {
namespace {

data::Batch random_batch(const layers::Model& model, data::Task task, std::int64_t vocabulary, std::int64_t labels,
                         const BenchOptions& options) {
  data::Batch batch = model.planning_batch(options.batch, options.length, 0.15);
  if (task == data::Task::ctr || task == data::Task::image) return batch;
  std::uint64_t state = options.seed;
  const auto first = std::min<std::int64_t>(vocabulary - 1, 1000);  // after the special tokens of common vocabularies
  for (std::int32_t& id : batch["input_ids"].as<std::int32_t>())
    id = static_cast<std::int32_t>(
        first + static_cast<std::int64_t>(next_random(state) % static_cast<std::uint64_t>(vocabulary - first)));
  for (std::int32_t& length : batch["lengths"].as<std::int32_t>()) length = static_cast<std::int32_t>(options.length);
  if (batch.has("labels"))
    for (std::int32_t& label : batch["labels"].as<std::int32_t>())
      label = static_cast<std::int32_t>(next_random(state) % static_cast<std::uint64_t>(labels));
  if (batch.has("targets"))
    for (std::int32_t& target : batch["targets"].as<std::int32_t>()) target = static_cast<std::int32_t>(first);
  if (batch.has("masked_targets")) {
    std::int32_t row = 0;
    for (std::int32_t& index : batch["masked_index"].as<std::int32_t>()) index = row, row += 6;
    for (std::int32_t& target : batch["masked_targets"].as<std::int32_t>()) target = static_cast<std::int32_t>(first);
  }
  std::int64_t sample = 0;
  for (std::int64_t& number : batch["samples"].as<std::int64_t>()) number = sample++;
  batch.length = options.length;
  batch.tokens = batch.sequences * options.length;
  batch.counted = task == data::Task::clm   ? batch["targets"].elements()
                  : task == data::Task::mlm ? batch["masked_index"].elements()
                                            : options.batch;
  return batch;
}

class Stepper {
 public:
  Stepper(engine::Engine& engine, std::span<const data::Batch> parts, std::uint64_t seed)
      : engine_(engine), parts_(parts), seed_(seed) {}

  double step_ms() {
    engine_.begin_step(seed_, {.step = step_++, .rates = {1e-4, 1e-4, 1e-4, 1e-4}});
    const double start = wall_seconds();
    engine_.train(parts_);
    return 1e3 * (wall_seconds() - start);
  }

 private:
  engine::Engine& engine_;
  std::span<const data::Batch> parts_;  // micro-batches
  std::uint64_t seed_;
  std::int64_t step_ = 0;
};

// One row per op, and on a device per op and shape. `step_ms`: of an unprofiled step, which on a device is a graph; the
// steps here repeat each call there some 80 times, so few steps suffice, and the rest of the time is not theirs.
std::vector<BenchRow> profiled_rows(engine::Engine& engine, Stepper& stepper, int repetitions, double step_ms) {
  const bool on_device = engine.machine().backend->device.open != nullptr;
  if (on_device) repetitions = std::min(repetitions, 3);
  std::map<std::pair<std::string, std::string>, std::pair<BenchRow, std::vector<double>>> rows;  // by op and shape
  std::vector<double> others;
  TaskProgress task("timing the parts of the step", repetitions);
  for (int i = 0; i < repetitions; ++i) {
    check_stop();
    plan::Profile profile;
    engine.set_profile(&profile);
    const double profiled_step_ms = stepper.step_ms();
    double other = on_device ? step_ms : profiled_step_ms;
    for (const plan::Profile::Row& row : profile.rows()) {
      auto& [one, ms] = rows[{row.op, row.shape}];
      one.work = row.op, one.shape = row.shape, one.calls = row.calls, one.flops = row.flops;
      ms.push_back(1e3 * row.seconds);
      other -= 1e3 * row.seconds;
    }
    others.push_back(on_device ? std::max(other, 0.0) : other);
    task.advance();
  }
  engine.set_profile(nullptr);
  auto& [rest, rest_ms] = rows[{"other", ""}];
  rest.work = "other", rest_ms = std::move(others);
  std::vector<BenchRow> all;
  for (auto& [key, row] : rows) {
    row.first.ms = spread_of(std::move(row.second));
    all.push_back(std::move(row.first));
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const BenchRow& a, const BenchRow& b) { return a.ms.median > b.ms.median; });
  return all;
}

double gflops_of(const BenchRow& row) {
  return row.flops > 0 && row.ms.median > 0 ? row.flops / row.ms.median * 1e-6 : NAN;
}

Cell optional_bytes(const std::optional<std::uint64_t>& bytes) {
  return bytes ? Cell(static_cast<std::int64_t>(*bytes)) : Cell();
}

// Returns no share for a rate above the machine's peak: the two were measured under different loads of the machine.
Cell share_cell(double part, double whole) { return whole > 0 && part <= whole ? Cell(part / whole) : Cell(); }

// `step`: the whole step that the row is a part of, if any.
std::vector<Cell> cells_of(const BenchRow& row, const BenchRow& step, double report_peak) {
  const double gflops = gflops_of(row), peak_gflops = row.peak_gflops > 0 ? row.peak_gflops : report_peak;
  return {row.work,
          row.isa,
          row.calls,
          row.ms.median,
          row.ms.min,
          row.ms.max,
          row.isa == step.isa ? Cell(row.ms.median / step.ms.median) : Cell(),
          std::isnan(gflops) ? Cell() : Cell(gflops),
          std::isnan(gflops) ? Cell() : share_cell(gflops, peak_gflops),
          optional_bytes(row.peak_bytes),
          row.joules ? Cell(*row.joules) : Cell()};
}

// For benches of single layers: adds the least number of bytes to move, and the share of the machine's bound.
void add_bounds(const BenchReport& report, Table& table) {
  if (std::none_of(report.rows.begin(), report.rows.end(), [](const BenchRow& row) { return row.moved_bytes > 0; }))
    return;
  table.columns.push_back({"moved_bytes", "moved", Unit::bytes});
  table.columns.push_back({"share_of_bound", "of the bound", Unit::share});
  for (std::size_t i = 0; i < report.rows.size(); ++i) {
    const BenchRow& row = report.rows[i];
    table.rows[i].insert(table.rows[i].end(), 2, Cell());
    if (row.moved_bytes > 0) table.rows[i].end()[-2] = static_cast<std::int64_t>(row.moved_bytes);
    if (const auto bound = bound_ms(report, row)) table.rows[i].back() = share_cell(*bound, row.ms.median);
  }
}

// Only the rows of devices are per shape.
void add_shapes(const BenchReport& report, Table& table) {
  if (std::all_of(report.rows.begin(), report.rows.end(), [](const BenchRow& row) { return row.shape.empty(); }))
    return;
  table.columns.insert(table.columns.begin() + 1, {"shape", "shape"});
  for (std::size_t i = 0; i < report.rows.size(); ++i)
    table.rows[i].insert(table.rows[i].begin() + 1, Cell(report.rows[i].shape));
}

// Only devices have launches.
void add_launches(const BenchReport& report, Table& table) {
  if (std::none_of(report.rows.begin(), report.rows.end(),
                   [](const BenchRow& row) { return row.launches.has_value(); }))
    return;
  table.columns.push_back({"launches", "launches"});
  for (std::size_t i = 0; i < report.rows.size(); ++i) {
    table.rows[i].emplace_back();
    if (const auto launches = report.rows[i].launches) table.rows[i].back() = *launches;
  }
}

Cell cell_of(const Json& value) {
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (value.is_number()) return value.get<double>();
  return value.is_string() ? Cell(value.get<std::string>()) : Cell(value.dump());
}

}  // namespace

std::vector<BenchRow> time_steps(engine::Engine& engine, data::Task task, std::int64_t vocabulary, std::int64_t labels,
                                 const BenchOptions& options) {
  engine::MemoryMeter memory(engine.machine());
  const data::Batch batch = random_batch(engine.model(), task, vocabulary, labels, options);
  Stepper stepper(engine, std::span(&batch, 1), options.seed);
  engine.plan_training(batch);
  engine.allocate();
  engine.weights().initialise(options.seed);
  engine.state().rank.surrogate_start = std::max(1.0, train::surrogate_at_start(engine.model()));
  BenchRow step = time_samples(engine.machine().backend->device, options, "step", [&] { return stepper.step_ms(); });
  step.flops = engine.memory_table().flops;
  step.peak_bytes = memory.peak();
  step.launches = engine.launches();
  std::vector<BenchRow> rows{step};
  if (!options.parts) return rows;
  for (BenchRow& row : profiled_rows(engine, stepper, options.repetitions, step.ms.median))
    rows.push_back(std::move(row));
  return rows;
}

StepParts time_step_parts(engine::Engine& engine, data::Task task, std::int64_t vocabulary, std::int64_t labels,
                          const BenchOptions& options) {
  const auto make = [&] { return random_batch(engine.model(), task, vocabulary, labels, options); };
  const data::Batch two[] = {make(), make()};
  engine.plan_training(two[0]);
  engine.allocate();
  Stepper one_part(engine, std::span(two, 1), options.seed), two_parts(engine, two, options.seed);
  // The first step touches the memory. On a device it runs call by call, and the second one records graphs.
  for (int i = 0; i < (engine.runs_beside() ? 2 : 1); ++i) {
    one_part.step_ms();
    if (engine.runs_beside()) two_parts.step_ms();
  }
  double one = INFINITY, both = INFINITY;
  for (int i = 0; i < options.repetitions; ++i) {
    one = std::min(one, one_part.step_ms());
    both = std::min(both, two_parts.step_ms());
  }
  const double part = std::clamp(both - one, 0.5 * one, one);
  return {.micro_batch = part, .rest = one - part};
}

void add_step(BenchReport& report, const BenchReport& other) {
  auto place = report.rows.begin();
  while (place != report.rows.end() && place->work == "step") ++place;
  place = report.rows.insert(place, other.rows.front());
  place->peak_bytes.reset();
  place->peak_gflops = other.peak_gflops;
}

std::optional<double> bound_ms(const BenchReport& report, const BenchRow& row) {
  if (row.moved_bytes <= 0 || row.flops <= 0 || report.peak_gflops <= 0 || report.copy_gb_per_s <= 0)
    return std::nullopt;
  return 1e-6 * std::max(row.flops / report.peak_gflops, row.moved_bytes / report.copy_gb_per_s);
}

Table bench_table(const BenchReport& report, bool with_settings) {
  Table table;
  table.columns = {{"work", "work"},
                   {"isa", "isa"},
                   {"calls", "calls"},
                   {"median_ms", "median ms", Unit::ms},
                   {"min_ms", "min ms", Unit::ms},
                   {"max_ms", "max ms", Unit::ms},
                   {"share", "of the step", Unit::share},
                   {"gflops", "GFLOP/s"},
                   {"share_of_peak", "of the peak", Unit::share},
                   {"peak_bytes", "memory", Unit::bytes},
                   {"joules", "J"}};
  table.dispensable = {"max_ms", "min_ms", "calls", "launches", "moved_bytes", "peak_bytes", "joules", "share", "isa"};
  for (const BenchRow& row : report.rows) table.rows.push_back(cells_of(row, report.rows.front(), report.peak_gflops));
  add_bounds(report, table);
  add_launches(report, table);
  add_shapes(report, table);
  if (!with_settings) return table;
  for (const auto& [key, value] : report.settings.items()) {
    table.columns.push_back({key, key});
    for (auto& row : table.rows) row.push_back(cell_of(value));
  }
  return table;
}

Json to_json(const BenchReport& report) {
  Json json = document("bench");
  json["settings"] = report.settings;
  json["peak_gflops"] = report.peak_gflops;
  json["peak_work"] = report.peak_work;
  json["copy_gb_per_s"] = report.copy_gb_per_s > 0 ? Json(report.copy_gb_per_s) : Json();
  json["rows"] = to_json(bench_table(report, false));
  return json;
}

std::string to_html(const BenchReport& report) {
  Facts facts{{"peak, " + report.peak_work, show(report.peak_gflops, Unit::plain) + " GFLOP/s"}};
  if (report.copy_gb_per_s > 0)
    facts.emplace_back("copies, read and written", show(report.copy_gb_per_s, Unit::plain) + " GB/s");
  Table settings;
  settings.columns = {{"option", "setting"}, {"value", "value"}};
  for (const auto& [key, value] : report.settings.items())
    settings.rows.push_back({key, show(cell_of(value), Unit::plain)});
  Page page("bench");
  page.facts(facts).table(without_empty_columns(bench_table(report, false))).heading("Settings").table(settings);
  return page.text();
}

}  // namespace comera::report
