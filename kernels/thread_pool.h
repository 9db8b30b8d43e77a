// The threads of the CPU backend: a fixed number of workers that share the tiles of one loop at a time.
//
// Which thread takes which tile is left to chance, so a tile must compute the same whoever runs it: tiles follow from
// shapes alone and write to places of their own. Then results are the same bytes for any number of threads.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/types.h"

namespace comera::kernels {

// While it lives, results of this thread below 1.2e-38 become zero, and such inputs count as zero. A moment of AdamW
// whose gradient stays zero would be subnormal, a hundred times slower to compute with, after some eight hundred steps.
// Tiles are the same bytes on whatever thread they run, so every thread that runs one has this.
class FlushSubnormals {
 public:
  FlushSubnormals();
  ~FlushSubnormals();
  FlushSubnormals(const FlushSubnormals&) = delete;
  FlushSubnormals& operator=(const FlushSubnormals&) = delete;

 private:
  unsigned before_;
};

// One thread at a time may call parallel_for; a body must not call it on the same pool. Nothing is allocated per call.
class ThreadPool {
 public:
  using Body = void (*)(void* data, std::int64_t tile) noexcept;

  explicit ThreadPool(int threads);  // the calling thread is one of them; at least 1
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const;
  void parallel_for(std::int64_t tiles, Body body, void* data);

 private:
  // Apart, because every kernel includes this header, and <thread> is a large one.
  struct State;
  State* state_;  // owned; no unique_ptr for the same reason
};

// f(tile) for every tile in [0, tiles), on the pool of the context or, where it has none, on the calling thread.
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
