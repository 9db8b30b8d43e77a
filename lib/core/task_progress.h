// Long work as it goes on, for whoever shows it (report::LiveLine). A loop makes a TaskProgress and counts in it; that
// costs a store.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace comera {

enum class TaskUnit : std::uint8_t { count, bytes };

// Tasks nest: the one that was begun last is the innermost.
class TaskProgress {
 public:
  // `what`: in a few words, as "reading train.tsv". `of`: how much there is, 0: not known.
  explicit TaskProgress(std::string what, std::int64_t of = 0, TaskUnit unit = TaskUnit::count);
  ~TaskProgress();
  TaskProgress(const TaskProgress&) = delete;
  TaskProgress& operator=(const TaskProgress&) = delete;

  void done(std::int64_t done) { done_.store(done, std::memory_order_relaxed); }
  void advance(std::int64_t by = 1) { done_.fetch_add(by, std::memory_order_relaxed); }
  // What stands behind the count, and where it is known better than from the count, the time that is left.
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

// A task as it stands at one moment.
struct TaskView {
  std::uint64_t number = 0;  // no two tasks have the same
  std::string what, note;
  std::int64_t done = 0, of = 0;
  TaskUnit unit = TaskUnit::count;
  double began = 0;  // wall_seconds()
  std::optional<double> seconds_left = {};
};

std::vector<TaskView> tasks_at_hand();  // the innermost last

}  // namespace comera
