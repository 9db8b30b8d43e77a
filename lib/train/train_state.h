// state.json: the state of a run that a checkpoint stores beside weights and moments.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "lib/data/loader.h"
#include "lib/engine/click_metrics.h"
#include "lib/engine/score_metrics.h"
#include "lib/train/core_rates.h"
#include "lib/train/rank_adaptation.h"

namespace comera::train {

using engine::ClickMetrics;
using engine::ScoreMetrics;

// Sums since the last line of metrics.jsonl.
struct Stretch {
  double loss = 0, correct = 0, seconds = 0;
  std::int64_t steps = 0, tokens = 0, counted = 0;
};

// Means over the stretch of the last line.
struct Means {
  double loss = 0, accuracy = 0, step_ms = 0, tokens_per_second = 0;
};

struct LastEvaluation {
  std::int64_t step = -1;  // -1: there was none
  double loss = 0, accuracy = 0, seconds = 0;
  std::int64_t counted = 0;
  ScoreMetrics scores;
  ClickMetrics clicks;  // without errors by bootstrap
};

struct TrainState {
  std::int64_t step = 0;  // finished
  data::LoaderState data;
  layers::RankTable rank_table;
  CoreRates core_rates;  // of a model that was read; empty: by the shapes of the cores, or one rate
  RankProgress ranks;
  double seconds = 0;  // training time so far
  std::uint64_t metrics_bytes = 0;
  std::int64_t tokens = 0;
  std::int64_t best_step = -1;  // -1: none yet
  double best_loss = 0, best_accuracy = 0;
  ScoreMetrics best_scores;
  ClickMetrics best_clicks;
  std::int64_t evaluations_without_gain = 0;
  bool evaluation_due = false;  // a signal interrupted the evaluation: a resumed run repeats it
  LastEvaluation evaluation;
  Stretch stretch;
  Means means;
  std::vector<double> recent_losses;  // of the last steps, to detect divergence
  double first_loss = 0;              // mean of the run's first steps
  // Checksums by name: of the checkpoint's other files, and of the files of the best model.
  std::map<std::string, std::string> files, best_files;
  bool with_checksums = true;  // false: read from version 1, which has none

  // The text ends with its own checksum, which is checked on reading. Throws InputError for anything that is not such a
  // state.
  std::string to_json() const;
  static TrainState from_json(const std::string& text, const std::string& file_name);
};

}  // namespace comera::train
