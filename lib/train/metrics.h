// Writes metrics.jsonl: one line of JSON per report, evaluation and event. Training lines have `loss` at the top level,
// dev lines in `dev`.
#pragma once

#include <string>

#include "lib/core/files/file.h"
#include "lib/engine/evaluate.h"
#include "lib/io/json.h"
#include "lib/train/rank_adaptation.h"

namespace comera::train {

using engine::Evaluation;

// A training report: means since the last report.
struct StepReport {
  std::int64_t step = 0, steps = 0;  // steps 0: no known end
  double loss = 0, accuracy = 0, learning_rate = 0, gradient_norm = 0;
  double mean_rank = 0, ratio = 1;  // of the inner bonds; dense / compressed
  bool has_ranks = false, has_accuracy = true;
  double step_ms = 0, tokens_per_second = 0;
  std::size_t peak_bytes = 0;
  double seconds = 0;  // training time so far
};

// Returns how many of the file's first `keep` bytes exist and end with a whole line. Warns if lines were lost.
std::uint64_t whole_lines(const Folder& folder, const std::string& name, std::uint64_t keep);

class Metrics {
 public:
  // Appends to metrics.jsonl. With `keep`, the file is first cut back to that many bytes.
  Metrics(const Folder& folder, std::uint64_t keep);

  void step(const StepReport& report, Engine& engine);
  void evaluation(std::int64_t step, double seconds, const Evaluation& evaluation, Engine& engine);
  void event(std::int64_t step, double seconds, const std::string& what);
  void removal(std::int64_t step, double seconds, const RankAdaptation::Event& event);
  std::uint64_t sync();  // bytes so far, synced to disk
  // The next line reports ranks and sizes again, even if they are unchanged.
  void forget() { last_ranks_.clear(); }
  // Call it after the model was rebuilt.
  void model_changed() { bytes_ = 0; }

 private:
  void append(const io::Json& line);
  void add_sizes(io::Json& line, Engine& engine);
  static void add_objective(io::Json& line, const kernels::RankState& state);
  void add_ranks(io::Json& line, Engine& engine);

  AppendFile file_;
  std::string last_ranks_;
  std::uint64_t bytes_ = 0;  // of the weights file; 0: to be computed
};

// The active ranks of every tensor train: entries above the threshold; all 0 if a bond is empty.
layers::RankTable active_ranks(const Engine& engine);

}  // namespace comera::train
