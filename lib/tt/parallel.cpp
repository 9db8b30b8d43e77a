#include "lib/tt/parallel.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <vector>

#include "kernels/host/thread_pool.h"

namespace comera::tt {
namespace {

class Calls;

thread_local kernels::ThreadPool* current_pool = nullptr;
thread_local Calls* current_calls = nullptr;  // in a call of each_apart()

// The calls of each_apart(), and the loops inside them.
class Calls {
 public:
  Calls(std::int64_t count, const std::function<void(std::int64_t)>& f)
      : f_(f), count_(count), failures_(static_cast<std::size_t>(count)) {}

  // Takes calls, then tiles of open loops, until all calls have ended.
  void work() {
    std::unique_lock lock(mutex_);
    while (ended_ < count_) {
      if (next_ < count_) {
        call(next_++, lock);
      } else if (!open_.empty()) {
        take_tile(*open_.front(), lock);
      } else {
        changed_.wait(lock);
      }
    }
  }

  // A loop inside a call. Ends when all its tiles have ended.
  void loop(std::int64_t tiles, TileBody body, void* data) {
    Loop loop{tiles, body, data};
    std::unique_lock lock(mutex_);
    open_.push_back(&loop);
    changed_.notify_all();
    while (loop.next < loop.tiles) take_tile(loop, lock);
    changed_.wait(lock, [&] { return loop.ended == loop.tiles; });
  }

  void rethrow() const {
    for (const std::exception_ptr& failure : failures_)
      if (failure) std::rethrow_exception(failure);
  }

 private:
  struct Loop {
    std::int64_t tiles;
    TileBody body;
    void* data;
    std::int64_t next = 0, ended = 0;
  };

  void call(std::int64_t index, std::unique_lock<std::mutex>& lock) {
    lock.unlock();
    try {
      f_(index);
    } catch (...) {  // an exception must not leave a pool thread
      failures_[static_cast<std::size_t>(index)] = std::current_exception();
    }
    lock.lock();
    if (++ended_ == count_) changed_.notify_all();
  }

  void take_tile(Loop& loop, std::unique_lock<std::mutex>& lock) {
    const std::int64_t tile = loop.next++;
    if (loop.next == loop.tiles) std::erase(open_, &loop);
    lock.unlock();
    loop.body(loop.data, tile);
    lock.lock();
    if (++loop.ended == loop.tiles) changed_.notify_all();
  }

  const std::function<void(std::int64_t)>& f_;
  std::int64_t count_, next_ = 0, ended_ = 0;
  std::vector<std::exception_ptr> failures_;
  std::vector<Loop*> open_;  // loops with tiles left
  std::mutex mutex_;
  std::condition_variable changed_;
};

}  // namespace

UsePool::UsePool(kernels::ThreadPool& pool) : before_(current_pool) { current_pool = &pool; }
UsePool::~UsePool() { current_pool = before_; }

void run_tiles(std::int64_t tiles, TileBody body, void* data) {
  if (current_calls && tiles > 1) return current_calls->loop(tiles, body, data);
  kernels::Context context;
  context.stream = current_pool;
  kernels::parallel_for(context, tiles, [&](std::int64_t tile) { body(data, tile); });
}

void each_alone(std::int64_t count, const std::function<void(std::int64_t)>& f) {
  std::vector<std::exception_ptr> failures(
      static_cast<std::size_t>(count));  // an exception must not leave a pool thread
  for_each_tile(count, [&](std::int64_t i) {
    kernels::ThreadPool* const before = current_pool;
    current_pool = nullptr;
    try {
      f(i);
    } catch (...) {
      failures[static_cast<std::size_t>(i)] = std::current_exception();
    }
    current_pool = before;
  });
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
}

void each_alone(std::int64_t count, std::int64_t numbers, const std::function<void(std::int64_t)>& f) {
  constexpr std::int64_t large = std::int64_t{1} << 24;
  if (numbers > large)
    for (std::int64_t i = 0; i < count; ++i) each_apart(1, [&](std::int64_t) { f(i); });
  else
    each_alone(count, f);
}

void each_apart(std::int64_t count, const std::function<void(std::int64_t)>& f) {
  if (!current_pool || count <= 1) {
    const kernels::FlushSubnormals flush;  // as on the threads of a pool
    for (std::int64_t i = 0; i < count; ++i) f(i);
    return;
  }
  Calls calls(count, f);
  for_each_tile(current_pool->threads(), [&](std::int64_t) {
    kernels::ThreadPool* const before = current_pool;
    current_pool = nullptr, current_calls = &calls;
    calls.work();
    current_pool = before, current_calls = nullptr;
  });
  calls.rethrow();
}

}  // namespace comera::tt
