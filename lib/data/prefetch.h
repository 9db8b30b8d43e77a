// Builds the next window of a loader on a thread of its own.
#pragma once

#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>

#include "lib/core/terminal/stop.h"
#include "lib/core/thread.h"
#include "lib/data/loader.h"

namespace comera::data {

// Source: Window build(const LoaderState& start), whose result has the state `next`, and cancel(), after which build()
// ends by an exception.
template <class Source, class Window>
class Prefetch {
 public:
  Prefetch(std::unique_ptr<Source> source, const LoaderState& start, bool one_epoch, bool stops)
      : source_(std::move(source)),
        one_epoch_(one_epoch),
        stops_(stops),
        thread_(start_thread([this, start] { run(start); })) {}

  ~Prefetch() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    source_->cancel();
    changed_.notify_all();
    thread_.join();
  }
  Prefetch(const Prefetch&) = delete;
  Prefetch& operator=(const Prefetch&) = delete;

  // Returns false after the last window of a single epoch. Rethrows an exception of the thread.
  bool take(Window& window) {
    std::unique_lock lock(mutex_);
    constexpr auto look = std::chrono::milliseconds(100);
    while (!changed_.wait_for(lock, look, [&] { return ready_ || done_; }))
      if (stops_) check_stop();
    if (!ready_) {
      if (error_) std::rethrow_exception(error_);
      return false;
    }
    window = std::move(*ready_);
    ready_.reset();
    lock.unlock();
    changed_.notify_all();
    return true;
  }

 private:
  void run(LoaderState state) {
    try {
      const std::int64_t epoch = state.epoch;
      while (!one_epoch_ || state.epoch == epoch) {
        if (!wait_for_room()) return;
        Window window = source_->build(state);
        state = window.next;
        const std::lock_guard lock(mutex_);
        ready_ = std::move(window);
        changed_.notify_all();
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      error_ = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    done_ = true;
    changed_.notify_all();
  }

  // Two windows are in memory: that of the reader and the next one. Returns false if the reader has ended.
  bool wait_for_room() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !ready_ || stop_; });
    return !stop_;
  }

  std::unique_ptr<Source> source_;
  bool one_epoch_, stops_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Window> ready_;
  std::exception_ptr error_;
  bool done_ = false, stop_ = false;
  std::jthread thread_;  // last member: the thread starts when all others are initialised
};

}  // namespace comera::data
