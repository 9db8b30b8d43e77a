// Shows the progress of a training run: a task of its steps (lib/core/terminal/task_progress.h), and a line for each
// report.
#pragma once

#include <climits>
#include <cstdint>
#include <optional>
#include <string>

#include "lib/core/terminal/task_progress.h"

namespace comera::report {

struct StepLine {
  std::int64_t step = 0, steps = 0;  // steps 0: no known end
  double loss = 0, learning_rate = 0, gradient_norm = 0;
  std::optional<double> rank, ratio;  // mean rank of the inner bonds; only for tensorised models
  double step_ms = 0, tokens_per_second = 0;
  std::uint64_t peak_bytes = 0;  // 0: not measured yet
  std::optional<double> eta_seconds;
  std::optional<double> seconds_left = {};  // if the time limit may end the run before its steps do
};

// "step 120/5000  loss 3.21  lr 2.9e-4  gnorm 0.84  rank 14.2  ratio 43.1x  42 ms  97k tok/s  peak 812 MiB  eta 3m20s"
// If `columns` is too small, less important fields are left out.
std::string to_string(const StepLine& line, int columns = INT_MAX);
// The note after the steps and the remaining time in the live line: "loss 3.21  42 ms  ratio 43.1x  rank 14.2  97k
// tok/s  peak 812 MiB"
std::string live_note(const StepLine& line);

// Estimates the remaining time from the steps so far without the first one, which also plans, fills caches and waits
// for the readers.
class Eta {
 public:
  void step_done(std::int64_t step, double now_seconds);
  std::optional<std::int64_t> last() const { return first_step_ ? std::optional(last_step_) : std::nullopt; }
  std::optional<double> seconds(std::int64_t steps) const;              // at the last step
  std::optional<double> seconds(std::int64_t steps, double now) const;  // at a later time

 private:
  std::optional<std::int64_t> first_step_;
  std::int64_t last_step_ = 0;
  double first_time_ = 0, last_time_ = 0;
};

class Progress {
 public:
  // Called before the first step, which may take long. steps 0: no known end.
  void begin(std::int64_t step, std::int64_t steps);
  // Called after every step. A due report gets a separate line.
  void step(StepLine line, bool report);

 private:
  Eta eta_;
  double last_told_ = -1;
  std::optional<TaskProgress> task_;
};

}  // namespace comera::report
