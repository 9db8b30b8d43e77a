#include "kernels/host/thread_pool.h"

#include <sys/resource.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <thread>
#include <vector>

using comera::kernels::Context;
using comera::kernels::parallel_for;
using comera::kernels::ThreadPool;

namespace {

double process_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_utime.tv_sec + usage.ru_stime.tv_sec + 1e-6 * (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

}  // namespace

TEST_CASE("every tile runs exactly once, for any number of threads") {
  for (int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    REQUIRE(pool.threads() == threads);
    const Context context{.stream = &pool};
    for (int tiles : {0, 1, 2, 7, 64, 1000}) {
      std::vector<int> hits(tiles, 0);
      parallel_for(context, tiles, [&](std::int64_t tile) { ++hits[tile]; });
      CHECK(hits == std::vector<int>(tiles, 1));
    }
  }
}

TEST_CASE("each of many short loops sees the results of the loop before it") {
  ThreadPool pool(4);
  const Context context{.stream = &pool};
  std::vector<long> values(13, 0);
  for (int round = 0; round < 20000; ++round)
    parallel_for(context, 13, [&](std::int64_t tile) { values[tile] += values[tile] / 2 % 3 + 1; });
  for (long value : values) CHECK(value == values[0]);
}

TEST_CASE("without a pool the calling thread runs all tiles") {
  int sum = 0;
  parallel_for(Context{}, 10, [&](std::int64_t tile) { sum += static_cast<int>(tile); });
  CHECK(sum == 45);
}

TEST_CASE("an idle pool sleeps") {
  ThreadPool pool(4);
  const Context context{.stream = &pool};
  parallel_for(context, 100, [](std::int64_t) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const double before = process_seconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  CHECK(process_seconds() - before < 0.05);
}
