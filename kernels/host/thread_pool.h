// Threads of the CPU backend: a fixed number of workers that share the tiles of one loop at a time.
//
// The assignment of tiles to threads is arbitrary, so a tile's result must not depend on its thread. Tiles write to
// disjoint places, and depend on shapes alone where a result depends on its tile. Results are therefore the same bytes
// for any number of threads.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/types.h"

namespace comera::kernels {

// While an object lives, results of this thread below 1.2e-38 are flushed to zero, and such inputs are read as zero. A
// moment of AdamW whose gradient stays zero would be subnormal after some eight hundred steps, and arithmetic on it a
// hundred times slower. Every thread that runs tiles uses this mode, so a tile has the same bytes on any thread.
class FlushSubnormals {
 public:
  FlushSubnormals();
  ~FlushSubnormals();
  FlushSubnormals(const FlushSubnormals&) = delete;
  FlushSubnormals& operator=(const FlushSubnormals&) = delete;

 private:
  unsigned before_;
};

// Only one thread at a time may call parallel_for. A body must not call it on the same pool. A call allocates nothing.
class ThreadPool {
 public:
  using Body = void (*)(void* data, std::int64_t tile) noexcept;

  explicit ThreadPool(int threads);  // the count includes the calling thread; at least 1
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const;
  void parallel_for(std::int64_t tiles, Body body, void* data);

 private:
  // Hidden from this header because every kernel includes it, and <thread> is large.
  struct State;
  State* state_;  // owned; no unique_ptr for the same reason
};

inline int threads_of(const Context& context) {
  const auto* pool = static_cast<const ThreadPool*>(context.stream);
  return pool ? pool->threads() : 1;
}

// Calls f(tile) for every tile in [0, tiles), on the pool of the context, or on the calling thread if there is no pool.
template <class F>
void parallel_for(const Context& context, std::int64_t tiles, F&& f) {
  auto* pool = static_cast<ThreadPool*>(context.stream);
  if (!pool || tiles <= 1) {
    const FlushSubnormals flush;
    for (std::int64_t tile = 0; tile < tiles; ++tile) f(tile);
    return;
  }
  pool->parallel_for(
      tiles, [](void* data, std::int64_t tile) noexcept { (*static_cast<std::remove_reference_t<F>*>(data))(tile); },
      &f);
}

}  // namespace comera::kernels
