#include "lib/core/terminal/task_progress.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "lib/core/process.h"

namespace comera {
namespace {

// Never destroyed: the thread that displays progress may outlive main().
struct Tasks {
  std::mutex mutex;
  std::vector<TaskProgress*> all;
  std::uint64_t begun = 0;
};
Tasks& tasks() {
  static auto* const list = new Tasks;
  return *list;
}

}  // namespace

TaskProgress::TaskProgress(std::string what, std::int64_t of, TaskUnit unit)
    : what_(std::move(what)), of_(of), unit_(unit), began_(wall_seconds()) {
  const std::lock_guard lock(tasks().mutex);
  number_ = ++tasks().begun;
  tasks().all.push_back(this);
}

TaskProgress::~TaskProgress() {
  const std::lock_guard lock(tasks().mutex);
  std::erase(tasks().all, this);
}

void TaskProgress::tell(std::string note, std::optional<double> seconds_left) {
  const std::lock_guard lock(tasks().mutex);
  note_ = std::move(note);
  seconds_left_ = seconds_left;
}

std::vector<TaskView> tasks_at_hand() {
  const std::lock_guard lock(tasks().mutex);
  std::vector<TaskView> views;
  for (const TaskProgress* task : tasks().all)
    views.push_back({.number = task->number_,
                     .what = task->what_,
                     .note = task->note_,
                     .done = task->done_.load(std::memory_order_relaxed),
                     .of = task->of_,
                     .unit = task->unit_,
                     .began = task->began_,
                     .seconds_left = task->seconds_left_});
  return views;
}

}  // namespace comera
