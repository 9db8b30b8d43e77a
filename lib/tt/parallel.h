// Threads of the algebra of tensor trains. Work is split by shape, so results are the same bytes for any number of
// threads.
#pragma once

#include <cstdint>
#include <functional>
#include <type_traits>

namespace comera::kernels {
class ThreadPool;
}

namespace comera::tt {

// During its lifetime, large products of this thread use the pool. Without it they run on this thread. The pool must be
// idle.
class UsePool {
 public:
  explicit UsePool(kernels::ThreadPool& pool);
  ~UsePool();
  UsePool(const UsePool&) = delete;
  UsePool& operator=(const UsePool&) = delete;

 private:
  kernels::ThreadPool* before_;
};

// Calls f(i) for i < count, each on one thread of the pool. Large products inside f run on that thread only. For work
// with many small steps.
void each_alone(std::int64_t count, const std::function<void(std::int64_t)>& f);
// The same for calls that each hold this many numbers. Large ones run one after the other, with the products of each on
// all threads.
void each_alone(std::int64_t count, std::int64_t numbers, const std::function<void(std::int64_t)>& f);

// Calls f(i) for i < count, the first ones first, each on one thread of the pool. A thread that finds no call left
// takes tiles of the products and calls of each_alone() inside the other calls. For long work in several steps.
void each_apart(std::int64_t count, const std::function<void(std::int64_t)>& f);

using TileBody = void (*)(void* data, std::int64_t tile) noexcept;
void run_tiles(std::int64_t tiles, TileBody body, void* data);

// Calls f(tile) for every tile in [0, tiles), on the threads that are free. f throws nothing.
template <class F>
void for_each_tile(std::int64_t tiles, F&& f) {
  run_tiles(
      tiles, [](void* data, std::int64_t tile) noexcept { (*static_cast<std::remove_reference_t<F>*>(data))(tile); },
      &f);
}

}  // namespace comera::tt
