// Displays the current tasks (lib/core/terminal/task_progress.h): one live line on a terminal, elsewhere a line every
// ten seconds.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>

#include "lib/core/terminal/task_progress.h"
#include "lib/report/run/progress.h"

namespace comera::report {

// Computes the lines for any clock.
class TaskLines {
 public:
  // Records the progress at this moment, to estimate the remaining time. Must be called before the two functions below.
  void see(std::span<const TaskView> tasks, double now);

  // "[#.........] fitting layers 4/37: encoder.layer.0.output.dense  eta 1m20s", at most `columns` columns wide.
  // Returns "" in the first second of work and without a task.
  std::string for_terminal(std::span<const TaskView> tasks, double now, int columns) const;
  // The same without bar, if ten seconds have passed since `last_message`; else "".
  std::string for_log(std::span<const TaskView> tasks, double now, double last_message) const;

 private:
  std::optional<double> seconds_left(std::span<const TaskView> tasks, double now) const;

  std::map<std::uint64_t, Eta> etas_;  // by the tasks' numbers
  double busy_since_ = 0;              // start of the work without a pause of a second
  std::optional<double> busy_last_;
};

// Shows the tasks from its own thread during its lifetime, and ends overdue work (lib/core/terminal/stop.h). If the
// thread cannot start, nothing is shown.
class LiveLine {
 public:
  LiveLine();
  ~LiveLine();
  LiveLine(const LiveLine&) = delete;
  LiveLine& operator=(const LiveLine&) = delete;

 private:
  void watch();

  std::mutex mutex_;
  std::condition_variable ended_;
  bool end_ = false;
  std::jthread thread_;  // last member: starts after all others are constructed
};

}  // namespace comera::report
