#include "kernels/host/thread_pool.h"

#include <xmmintrin.h>

#include <atomic>
#include <thread>
#include <vector>

namespace comera::kernels {
namespace {

constexpr std::uint64_t remaining_mask = 0xffffffffu;
// Some tens of microseconds: longer than the gap between two ops, and short enough to waste little time.
constexpr int spins = 4000;
constexpr std::int64_t largest_loop = 1 << 30;

void pause() { __builtin_ia32_pause(); }

constexpr unsigned flush_to_zero = 1u << 15, denormals_are_zero = 1u << 6;

}  // namespace

FlushSubnormals::FlushSubnormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ | flush_to_zero | denormals_are_zero); }

FlushSubnormals::~FlushSubnormals() { _mm_setcsr(before_); }

struct ThreadPool::State {
  ~State();  // stops and joins the workers that were started
  bool run_one();
  void work();

  // The high half is the generation, the low half the number of tiles left. A late worker can therefore never take a
  // tile of another loop.
  alignas(64) std::atomic<std::uint64_t> ticket{0};
  alignas(64) std::atomic<std::uint32_t> finished{0};
  alignas(64) std::atomic<std::uint32_t> wakeups{0};
  std::atomic<bool> stop{false};
  Body body = nullptr;
  void* data = nullptr;
  std::uint32_t tiles = 0;
  std::vector<std::thread> workers;
};

ThreadPool::ThreadPool(int threads) : state_(new State) {
  try {
    for (int i = 1; i < threads; ++i) state_->workers.emplace_back([state = state_] { state->work(); });
  } catch (...) {
    delete state_;
    throw;
  }
}

ThreadPool::State::~State() {
  stop.store(true, std::memory_order_release);
  wakeups.fetch_add(1, std::memory_order_release);
  wakeups.notify_all();
  for (std::thread& worker : workers) worker.join();
}

ThreadPool::~ThreadPool() { delete state_; }

int ThreadPool::threads() const { return static_cast<int>(state_->workers.size()) + 1; }

void ThreadPool::parallel_for(std::int64_t tiles, Body body, void* data) {
  const FlushSubnormals flush;
  State& state = *state_;
  for (; tiles > largest_loop; --tiles) body(data, tiles - 1);
  if (state.workers.empty() || tiles <= 1) {
    for (std::int64_t tile = 0; tile < tiles; ++tile) body(data, tile);
    return;
  }
  state.body = body;
  state.data = data;
  state.tiles = static_cast<std::uint32_t>(tiles);
  state.finished.store(0, std::memory_order_relaxed);
  const std::uint64_t generation = (state.ticket.load(std::memory_order_relaxed) >> 32) + 1;
  state.ticket.store(generation << 32 | state.tiles, std::memory_order_release);
  state.wakeups.fetch_add(1, std::memory_order_release);
  state.wakeups.notify_all();
  while (state.run_one()) {
  }
  for (int i = 0; i < spins && state.finished.load(std::memory_order_acquire) != state.tiles; ++i) pause();
  for (std::uint32_t done; (done = state.finished.load(std::memory_order_acquire)) != state.tiles;)
    state.finished.wait(done, std::memory_order_acquire);
}

// Takes one tile and runs it. Returns false if no tile is left. The fields of the loop may be read only after a tile
// was taken: until this tile is finished, the caller cannot start another loop.
bool ThreadPool::State::run_one() {
  std::uint64_t now = ticket.load(std::memory_order_acquire);
  do {
    if ((now & remaining_mask) == 0) return false;
  } while (!ticket.compare_exchange_weak(now, now - 1, std::memory_order_acq_rel, std::memory_order_acquire));
  const std::uint32_t all = tiles;
  body(data, all - static_cast<std::uint32_t>(now & remaining_mask));
  if (finished.fetch_add(1, std::memory_order_acq_rel) + 1 == all) finished.notify_one();
  return true;
}

void ThreadPool::State::work() {
  const FlushSubnormals flush;
  int idle = 0;
  while (true) {
    const std::uint32_t seen = wakeups.load(std::memory_order_acquire);
    if (stop.load(std::memory_order_acquire)) return;
    if (run_one()) {
      idle = 0;
    } else if (++idle < spins) {
      pause();
    } else {
      wakeups.wait(seen, std::memory_order_acquire);
      idle = 0;
    }
  }
}

}  // namespace comera::kernels
