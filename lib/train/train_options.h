// The options of training, and their values once the data is known.
#pragma once

#include <optional>

#include "lib/core/options/options.h"
#include "lib/train/memory_options.h"
#include "lib/train/optimizer.h"
#include "lib/train/rank_adaptation.h"
#include "lib/train/schedule.h"

namespace comera::train {

// Options of pretrain and finetune, by group.
// --task, --data, --dev, --text, --label, --tokenizer, --case, --batch, --accumulate, --seq, ...
std::vector<Option> data_options();
std::vector<Option> training_options();  // steps, learning rates, schedule, evaluation, early stopping
std::vector<Option> rank_options();      // thresholds, weights and targets of the two stages
std::vector<Option> run_options();  // --save-every, --keep, --resume, --override, --force, --output, --dry-run, ...

enum class Metric : std::uint8_t { accuracy, loss, spearman };

struct TrainOptions {
  data::Task task = data::Task::classify;
  bool labelled = true;  // false: a teacher's answers are learned alone
  std::int64_t batch = 32, accumulate = 1, length = 128;
  double mask_probability = 0.15;
  bool whole_words = false;
  std::uint64_t seed = 0;
  int threads = 1;

  std::int64_t steps = 0;  // 0: from epochs, or unlimited with max_seconds
  double epochs = 0, max_seconds = 0;
  double rate = 0, rate_cores = 0, rate_ranks = 0, rate_tables = 0;
  std::optional<double> rate_table_cores;  // none: rate_cores
  Schedule schedule;                       // the trainer fills in steps and an unset warm-up

  engine::EngineOptions engine;  // without an update
  OptimizerOptions optimizer;
  RankOptions ranks;  // the trainer fills in late_start and late_deadline
  std::optional<Period> late_after;

  std::optional<Period> eval_every, save_every;
  std::int64_t log_every = 10, keep = 2, patience = 0;
  Metric best_by = Metric::accuracy;

  // `engine` with the update by `optimizer`.
  engine::EngineOptions training_engine() const {
    engine::EngineOptions options = engine;
    options.update = train::optimizer(optimizer);
    return options;
  }
};

// Throws InputError if values contradict each other.
TrainOptions train_options(const OptionValues& values);

// The task of --task.
data::Task task_of(const OptionValues& values);
// False with --unlabelled for a task whose labels are read.
bool reads_labels(const OptionValues& values);
Option data_format_option(const char* group);  // --data-format, a row of data_options()
Option chat_option(const char* group);         // --chat
data::DataSpec data_spec(const OptionValues& values, const std::vector<std::string>& files);

// Steps of the whole run; 0: no known end. `steps_per_epoch` 0: not known.
std::int64_t total_steps(const TrainOptions& options, std::int64_t steps_per_epoch);
// A period in steps; nullopt for one in time.
std::optional<std::int64_t> steps_of(const Period& period, std::int64_t steps_per_epoch, const char* option);

}  // namespace comera::train
