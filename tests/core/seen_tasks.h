// Records the tasks that run during its lifetime.
#pragma once

#include <algorithm>
#include <atomic>
#include <map>
#include <string>
#include <thread>

#include "lib/core/terminal/task_progress.h"

namespace comera {

class SeenTasks {
 public:
  SeenTasks() : thread_([this] { watch(); }) {}
  ~SeenTasks() { end(); }
  SeenTasks(const SeenTasks&) = delete;
  SeenTasks& operator=(const SeenTasks&) = delete;

  // By their descriptions, each in its latest state.
  const std::map<std::string, TaskView>& end() {
    end_ = true;
    if (thread_.joinable()) thread_.join();
    return seen_;
  }

 private:
  void watch() {
    for (; !end_; std::this_thread::yield())
      for (const TaskView& task : tasks_at_hand()) seen_[task.what] = task;
  }

  std::map<std::string, TaskView> seen_;
  std::atomic<bool> end_ = false;
  std::thread thread_;  // last member: starts after all others are constructed
};

}  // namespace comera
