#include "tools/step_times.h"

#include <algorithm>
#include <cmath>

#include "lib/core/terminal/stop.h"
#include "lib/core/terminal/task_progress.h"
#include "lib/data/collate.h"
#include "lib/report/bench/bench.h"
#include "models/architecture.h"

namespace comera::tools {
namespace {

using train::MemoryChoice;
using train::PlannedChoice;

constexpr double flops_to_measure = 2e9, most_flops = 1e11;  // of a micro-batch
constexpr double flops_of_a_part = 2e10;                     // where a whole sequence has more than most_flops
constexpr std::int64_t least_length = 16;

// The times of a few sequences under a policy, or of the first tokens of one.
struct Sample {
  std::int64_t sequences = 0;
  double flops = 0;  // of the first tokens of a sequence, forward and backward; 0: whole sequences
  report::StepParts ms = {};
};

double passes_flops(const engine::MemoryTable& table) { return table.forward_flops + table.backward_flops; }

// The tokens of a sequence to measure; 0: too many operations for even the shortest beginning.
std::int64_t measured_length(const models::Spec& spec, std::int64_t length, double sequence_flops) {
  if (sequence_flops <= most_flops) return length;
  if (spec.task == data::Task::image || spec.task == data::Task::ctr) return 0;
  const double per_token = sequence_flops / static_cast<double>(length);
  const auto tokens = static_cast<std::int64_t>(flops_of_a_part / per_token) / least_length * least_length;
  return std::max(tokens, least_length) * per_token > most_flops ? 0 : std::clamp(tokens, least_length, length);
}

std::unique_ptr<engine::Engine> engine_of(const OptionValues& values, const RunSetup& setup,
                                          const models::ModelSpec& spec) {
  plan::Machine machine = setup.open.machine;
  machine.paths = nullptr;
  const train::TrainOptions options = train::train_options(values);
  return std::make_unique<engine::Engine>(machine, models::factory_of(spec, machine.dtype), options.training_engine());
}

// None if the machine has too little memory or the model is too large to be measured in passing.
std::optional<Sample> measure(const PlannedChoice& row, const OptionValues& given, const RunSetup& setup,
                              std::size_t most) try {
  OptionValues values = given;
  train::apply(row.choice, values);
  const double sequence =
      row.step.memory.flops / static_cast<double>(std::max<std::int64_t>(row.choice.batch * row.choice.accumulate, 1));
  Sample sample{.sequences = std::clamp<std::int64_t>(std::llround(flops_to_measure / sequence), 1, row.choice.batch)};
  const models::ModelSpec spec = setup.spec_of ? setup.spec_of(values) : setup.spec;
  const models::Spec& common = models::common(spec);
  const std::int64_t whole = data::round_up_length(static_cast<std::int64_t>(setup.options.length));
  const report::BenchOptions options{
      .repetitions = 2, .batch = sample.sequences, .length = measured_length(common, whole, sequence)};
  if (options.length == 0) return std::nullopt;
  const auto engine = engine_of(values, setup, spec);
  engine->plan_training(engine->model().planning_batch(options.batch, options.length, 0.15));
  if (engine->planned_bytes() >= most) return std::nullopt;
  if (options.length < whole) sample.flops = passes_flops(engine->memory_table());
  const auto labels = std::max<std::int64_t>(static_cast<std::int64_t>(common.labels.size()), 1);
  sample.ms = report::time_step_parts(*engine, common.task, common.vocabulary, labels, options);
  return sample;
} catch (const plan::OutOfMemory&) {
  return std::nullopt;
}

double step_ms(const Sample& sample, const PlannedChoice& row) {
  const MemoryChoice& choice = row.choice;
  const double micro_batches =
      sample.flops > 0 ? passes_flops(row.step.memory) / sample.flops
                       : static_cast<double>(choice.batch * choice.accumulate) / static_cast<double>(sample.sequences);
  return sample.ms.rest + micro_batches * sample.ms.micro_batch;
}

}  // namespace

void predict_times(std::span<PlannedChoice> rows, const OptionValues& values, const RunSetup& setup, std::size_t most) {
  if (setup.open.only_plans || setup.teacher) return;
  TaskProgress task("timing a few sequences per policy", static_cast<std::int64_t>(rows.size()));
  std::optional<Sample> sample;
  for (std::size_t i = 0; i < rows.size(); ++i, task.advance()) {
    check_stop();
    if (!rows[i].step.refused.empty()) continue;
    if (i == 0 || !rows[i].choice.same_policy(rows[i - 1].choice)) sample = measure(rows[i], values, setup, most);
    if (sample) rows[i].step.ms = step_ms(*sample, rows[i]);
  }
}

}  // namespace comera::tools
