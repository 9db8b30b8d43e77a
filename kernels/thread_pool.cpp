#include "kernels/thread_pool.h"

#include <xmmintrin.h>

namespace comera::kernels {
namespace {

constexpr std::uint64_t remaining_mask = 0xffffffffu;
constexpr int spins = 4000;  // some tens of microseconds: longer than the gap between two ops, shorter than anyone would notice
constexpr std::int64_t largest_loop = 1 << 30;

void pause() { __builtin_ia32_pause(); }

constexpr unsigned flush_to_zero = 1u << 15, denormals_are_zero = 1u << 6;

}  // namespace

FlushSubnormals::FlushSubnormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ | flush_to_zero | denormals_are_zero); }

FlushSubnormals::~FlushSubnormals() { _mm_setcsr(before_); }

ThreadPool::ThreadPool(int threads) {
  for (int i = 1; i < threads; ++i) workers_.emplace_back([this] { work(); });
}

ThreadPool::~ThreadPool() {
  stop_.store(true, std::memory_order_release);
  wakeups_.fetch_add(1, std::memory_order_release);
  wakeups_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::parallel_for(std::int64_t tiles, Body body, void* data) {
  const FlushSubnormals flush;
  for (; tiles > largest_loop; --tiles) body(data, tiles - 1);
  if (workers_.empty() || tiles <= 1) {
    for (std::int64_t tile = 0; tile < tiles; ++tile) body(data, tile);
    return;
  }
  body_ = body;
  data_ = data;
  tiles_ = static_cast<std::uint32_t>(tiles);
  finished_.store(0, std::memory_order_relaxed);
  const std::uint64_t generation = (ticket_.load(std::memory_order_relaxed) >> 32) + 1;
  ticket_.store(generation << 32 | tiles_, std::memory_order_release);
  wakeups_.fetch_add(1, std::memory_order_release);
  wakeups_.notify_all();
  while (run_one()) {
  }
  for (int i = 0; i < spins && finished_.load(std::memory_order_acquire) != tiles_; ++i) pause();
  for (std::uint32_t done; (done = finished_.load(std::memory_order_acquire)) != tiles_;) finished_.wait(done, std::memory_order_acquire);
}

// Takes one tile and runs it; false where none is left. What the loop is may be read only after a tile was taken: the caller
// cannot go on to another loop before this tile is finished.
bool ThreadPool::run_one() {
  std::uint64_t ticket = ticket_.load(std::memory_order_acquire);
  do {
    if ((ticket & remaining_mask) == 0) return false;
  } while (!ticket_.compare_exchange_weak(ticket, ticket - 1, std::memory_order_acq_rel, std::memory_order_acquire));
  const std::uint32_t tiles = tiles_;
  body_(data_, tiles - static_cast<std::uint32_t>(ticket & remaining_mask));
  if (finished_.fetch_add(1, std::memory_order_acq_rel) + 1 == tiles) finished_.notify_one();
  return true;
}

void ThreadPool::work() {
  const FlushSubnormals flush;
  int idle = 0;
  while (true) {
    const std::uint32_t seen = wakeups_.load(std::memory_order_acquire);
    if (stop_.load(std::memory_order_acquire)) return;
    if (run_one()) {
      idle = 0;
    } else if (++idle < spins) {
      pause();
    } else {
      wakeups_.wait(seen, std::memory_order_acquire);
      idle = 0;
    }
  }
}

}  // namespace comera::kernels
