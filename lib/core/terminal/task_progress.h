// Progress of long work, for the display (report::LiveLine). A loop makes a TaskProgress and counts in it; each count
// costs one store.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace comera {

enum class TaskUnit : std::uint8_t { count, bytes };

// Tasks nest: the most recently started one is the innermost.
class TaskProgress {
 public:
  // `what`: a short description such as "reading train.tsv". `of`: the total, 0 if unknown.
  explicit TaskProgress(std::string what, std::int64_t of = 0, TaskUnit unit = TaskUnit::count);
  ~TaskProgress();
  TaskProgress(const TaskProgress&) = delete;
  TaskProgress& operator=(const TaskProgress&) = delete;

  void done(std::int64_t done) { done_.store(done, std::memory_order_relaxed); }
  void advance(std::int64_t by = 1) { done_.fetch_add(by, std::memory_order_relaxed); }
  // Sets the text after the count, and the remaining time if a better estimate than the one from the count exists.
  void tell(std::string note, std::optional<double> seconds_left);

 private:
  friend struct TaskView;
  friend std::vector<struct TaskView> tasks_at_hand();

  std::string what_, note_;
  std::int64_t of_;
  TaskUnit unit_;
  double began_;
  std::uint64_t number_;
  std::optional<double> seconds_left_;
  std::atomic<std::int64_t> done_ = 0;
};

// A copy of a task's state at one moment.
struct TaskView {
  std::uint64_t number = 0;  // unique among tasks
  std::string what, note;
  std::int64_t done = 0, of = 0;
  TaskUnit unit = TaskUnit::count;
  double began = 0;  // wall_seconds()
  std::optional<double> seconds_left = {};
};

std::vector<TaskView> tasks_at_hand();  // the innermost last

}  // namespace comera
