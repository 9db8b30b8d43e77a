// What a long run says while it works, through the log: one live line on a terminal, otherwise one plain line per report.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace comera::report {

struct StepLine {
  std::int64_t step = 0, steps = 0;  // steps 0: no end is known
  double loss = 0, learning_rate = 0, gradient_norm = 0;
  std::optional<double> rank, ratio;  // mean rank of the inner bonds; only where something is tensorised
  double step_ms = 0, tokens_per_second = 0;
  std::uint64_t peak_bytes = 0;
  std::optional<double> eta_seconds;
  std::optional<double> seconds_left = {};  // where the clock may end the run before its steps do
};

// "step 120/5000  loss 3.21  lr 2.9e-4  gnorm 0.84  rank 14.2  ratio 43.1x  42 ms  97k tok/s  peak 812 MiB  eta 3m20s"
std::string to_string(const StepLine& line);

// Time to the end from the steps seen so far, the first left out: it also plans, fills caches and waits for the readers.
class Eta {
 public:
  void step_done(std::int64_t step, double now_seconds);
  std::optional<double> seconds(std::int64_t steps) const;

 private:
  std::optional<std::int64_t> first_step_;
  std::int64_t last_step_ = 0;
  double first_time_ = 0, last_time_ = 0;
};

class Progress {
 public:
  ~Progress() { finish(); }
  // After every step. Where a report is due, a line of its own; in between, on a terminal, the bar, at most ten times a second.
  void step(StepLine line, bool report);
  void finish();  // takes the bar away

 private:
  Eta eta_;
  double last_draw_ = -1;
};

// The bar as it is drawn in `columns` columns: "[#####.....] 120/5000  eta 3m20s  loss 3.21 ...", cut at the right.
std::string bar(const StepLine& line, int columns);

}  // namespace comera::report
