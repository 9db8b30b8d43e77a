// Runs a training from its first step or from a checkpoint to its end.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "lib/train/late_stage.h"
#include "lib/train/metrics.h"
#include "lib/train/run_folder.h"
#include "lib/train/teacher.h"
#include "lib/train/train_options.h"

namespace comera::train {

using engine::MemoryMeter;
using plan::Machine;

struct TrainInputs {
  Machine machine;
  layers::ModelFactory factory;
  std::shared_ptr<const data::Dataset> data, dev;  // dev may be null
  std::string recipe;                              // text of recipe.toml, before the machine's paths
  bool resume = false;                             // from the folder's last checkpoint if there is one
  bool skip_damaged = false;                       // ... or from the last undamaged one
  Teacher* teacher = nullptr;                      // may be null
  std::function<void(Weights&)> start = {};        // fills the random weights of a fresh run; null: they stay random
  // Writes further files of the source model into the folder of a fresh run.
  std::function<void(const Folder& folder)> side_files = {};
  // Names the settings that a run without enough memory may use. `bytes`: its plan; `free`: of the device, 0: unknown.
  std::function<std::string(std::size_t bytes, std::size_t free)> cheaper = {};
};

struct TrainCallbacks {
  std::function<void(const MemoryTable&)> start;                          // before the weights are made or read
  std::function<void(std::int64_t step, std::int64_t steps)> first_step;  // before the first step of this session
  // Called after every step; `report`: a line is due, the means are new.
  std::function<void(const StepReport&, bool report)> step;
  std::function<void(std::int64_t step, const Evaluation&, bool best)> evaluation;
};

enum class RunEnd : std::uint8_t { steps, time, early, signal };

struct RunResult {
  RunEnd end = RunEnd::steps;
  int signal = 0;  // signal that stopped the run; the program ends with 128 + signal
  std::int64_t step = 0, steps = 0;
  double seconds = 0;  // of training, over all sessions of the run
  double loss = 0;     // mean of the last report
  Evaluation last;     // counted == 0 without dev data
  std::int64_t best_step = -1;
  double best_loss = 0, best_accuracy = 0;
  ScoreMetrics best_scores;
  ClickMetrics best_clicks;
  MemoryTable memory;            // as planned at the end of the run
  std::size_t planned_peak = 0;  // largest planned memory at any time, with the memory of a device's driver
  std::size_t measured_peak = 0;
  double waited_ms = 0;  // waiting time for the readers
};

class Trainer {
 public:
  // Throws for targets that cannot be reached and for unknown lengths, before anything is written.
  Trainer(const TrainInputs& inputs, const TrainOptions& options, RunFolder& folder, TrainCallbacks callbacks);

  // Throws RunError with the name of the last good checkpoint if the loss is not finite or diverges.
  RunResult run();
  Engine& engine() { return *engine_; }
  std::int64_t steps() const { return steps_; }

 private:
  void build();
  void plan_memory();
  void refuse_what_does_not_fit() const;
  std::string cheaper(std::size_t free) const;
  void allocate();
  // The teacher for dev evaluations. Language models have none there, so that dev loss and perplexity measure the text
  // alone.
  Teacher* dev_teacher() const { return predicts_words(options_.task) ? nullptr : inputs_.teacher; }
  MemoryTable memory_table() const;
  std::size_t reader_bytes() const;
  std::string recipe() const;
  void begin();
  void create_folder();
  std::function<void(const Folder&)> others() const;  // writes the files that a model folder needs beside its weights
  void take_up();
  void set_rates();
  bool train_step();  // false: abandoned because of a signal
  bool start_step();
  void take_batches();
  void look_ahead();
  void count_step();
  void check_loss();
  void renew_core_rates();
  void adapt(const RankAdaptation::Event& event);
  void after_step();
  void report();
  void evaluate_now();
  bool gains() const;
  void save();
  void close(RunResult& result);
  bool due(const std::optional<Period>& period, double& last, const char* option);
  std::optional<RunEnd> ended() const;
  double seconds() const;
  StepReport report_of() const;
  [[noreturn]] void fail(const std::string& what) const;

  TrainInputs inputs_;
  TrainOptions options_;
  RunFolder& folder_;
  TrainCallbacks callbacks_;
  MemoryMeter meter_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<data::Loader> loader_;
  std::unique_ptr<RankAdaptation> ranks_;
  std::unique_ptr<Metrics> metrics_;
  std::vector<data::Batch> parts_;
  struct {
    std::vector<data::Batch> parts;
    bool made = false;
    std::exception_ptr error;
  } ahead_;                                  // for the next step
  std::optional<std::string> saved_recipe_;  // none: the run takes no further step
  TrainState state_;
  std::int64_t steps_ = 0;  // 0: no known end
  LateStage late_;
  double session_start_ = 0;
  double learning_rate_ = 0;  // of the step, without cores, diagonals and tables
  double last_save_ = 0, last_evaluation_ = 0;
  std::int64_t saved_step_ = -1;
  StepReport last_report_;
  Evaluation last_;
  std::size_t planned_peak_ = 0;
};

}  // namespace comera::train
