// A race that ThreadSanitizer must find. Only test_tt_races has it (tests/tt/races.sh).
#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

#include "kernels/host/thread_pool.h"
#include "lib/tt/parallel.h"

using namespace comera;

TEST_CASE("a race between two calls shows") {
  kernels::ThreadPool pool(2);
  const tt::UsePool use(pool);
  std::atomic<int> begun = 0;
  volatile int shared = 0;
  tt::each_apart(2, [&](std::int64_t) {
    for (++begun; begun < 2;) std::this_thread::yield();
    // ThreadSanitizer can miss two accesses at the same instant, so there are many.
    for (int i = 0; i < 1000; ++i) shared = shared + 1;
  });
  CHECK(shared > 0);
}
