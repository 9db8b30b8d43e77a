// What the tasks at hand (lib/core/task_progress.h) look like to the person who waits: a line on a terminal, elsewhere
// a line every ten seconds.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>

#include "lib/core/task_progress.h"
#include "lib/report/progress.h"

namespace comera::report {

// The lines, for any clock.
class TaskLines {
 public:
  // What was done at this moment: what is left follows from it. Called before the two below.
  void see(std::span<const TaskView> tasks, double now);

  // "[#.........] fitting layers 4/37: encoder.layer.0.output.dense  eta 1m20s", no longer than a line of `columns`
  // columns. "" while there is nothing to show: in the first second of work, and where there is no task.
  std::string for_terminal(std::span<const TaskView> tasks, double now, int columns) const;
  // The same without bar, where ten seconds have passed since the last message, at `last_message`; else "".
  std::string for_log(std::span<const TaskView> tasks, double now, double last_message) const;

 private:
  std::optional<double> seconds_left(std::span<const TaskView> tasks, double now) const;

  std::map<std::uint64_t, Eta> etas_;  // by the tasks' numbers
  double busy_since_ = 0;              // without a second in which there was no task
  std::optional<double> busy_last_;
};

// Shows the tasks from a thread of its own while it lives, and ends what is overdue (lib/core/stop.h). Where no thread
// starts, nothing is shown.
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
  std::jthread thread_;  // last: begins when everything else is there
};

}  // namespace comera::report
