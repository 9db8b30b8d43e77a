// What a long run says while it works, on stderr: one live line on a terminal, otherwise one plain line per report.
#pragma once

#include <cstdint>
#include <cstdio>
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
  // `quiet` prints nothing. Whether `file` is a terminal, and how wide, is looked up here.
  Progress(std::FILE* file, bool quiet);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // After every step. On a terminal the bar is drawn, at most ten times a second; elsewhere nothing, unless `report`.
  void step(const StepLine& line, bool report);
  // A line of its own ("saved ...", "dev accuracy ..."), above the bar.
  void say(const std::string& text);
  // Takes the bar away.
  void finish();
  bool on_terminal() const { return terminal_; }

 private:
  void clear_bar();

  std::FILE* file_;
  bool quiet_ = false, terminal_ = false, drawn_ = false;
  double last_draw_ = -1;
};

// The bar as it is drawn in `columns` columns: "[#####.....] step 120/5000 ...", cut at the right.
std::string bar(const StepLine& line, int columns);

}  // namespace comera::report
