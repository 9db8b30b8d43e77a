#include "lib/data/window.h"

#include <atomic>
#include <catch2/catch.hpp>

#include "lib/core/error.h"

using namespace comera::data;

namespace {

std::pair<std::int64_t, std::int64_t> trimmed(std::int64_t room, std::int64_t first, std::int64_t second) {
  trim_pair(room, first, second);
  return {first, second};
}

// truncate_encodings of tokenizers 0.22, LongestFirst, with its unsigned lengths and its swap.
std::pair<std::int64_t, std::int64_t> longest_first(std::size_t room, std::size_t n1, std::size_t n2) {
  if (n1 + n2 <= room) return {n1, n2};
  const bool swap = n1 > n2;
  if (swap) std::swap(n1, n2);
  n2 = n1 > room ? n1 : std::max(n1, room - n1);
  if (n1 + n2 > room) n1 = room / 2, n2 = n1 + room % 2;
  if (swap) std::swap(n1, n2);
  return {n1, n2};
}

}  // namespace

TEST_CASE("window: a pair is cut to the lengths of longest_first of Hugging Face's tokenizers") {
  CHECK(trimmed(10, 5, 5) == std::pair<std::int64_t, std::int64_t>{5, 5});
  CHECK(trimmed(9, 5, 5) == std::pair<std::int64_t, std::int64_t>{4, 5});
  CHECK(trimmed(9, 6, 5) == std::pair<std::int64_t, std::int64_t>{5, 4});
  CHECK(trimmed(9, 5, 6) == std::pair<std::int64_t, std::int64_t>{4, 5});
  CHECK(trimmed(8, 5, 5) == std::pair<std::int64_t, std::int64_t>{4, 4});
  CHECK(trimmed(125, 200, 20) == std::pair<std::int64_t, std::int64_t>{105, 20});
  CHECK(trimmed(125, 20, 200) == std::pair<std::int64_t, std::int64_t>{20, 105});
  for (std::int64_t room = 0; room <= 24; ++room)
    for (std::int64_t first = 0; first <= 24; ++first)
      for (std::int64_t second = 0; second <= 24; ++second) {
        INFO(room << " for " << first << " and " << second);
        const auto wanted = longest_first(static_cast<std::size_t>(room), static_cast<std::size_t>(first),
                                          static_cast<std::size_t>(second));
        CHECK(trimmed(room, first, second) == wanted);
      }
}

TEST_CASE("window: windows grow from 512 to 8192 sequences or 2^20 tokens, in whole steps") {
  CHECK(window_steps({32, 128}, 0) == 16);
  CHECK(window_steps({32, 128}, 1) == 32);
  CHECK(window_steps({32, 128}, 4) == 256);
  CHECK(window_steps({32, 128}, 100) == 256);
  CHECK(window_steps({10000, 128}, 0) == 1);
  CHECK(window_steps({1, 128}, 0) == 512);
  CHECK(window_steps({1, 129}, 100) == 8128);
  CHECK(window_steps({1, 3072}, 0) == 341);
  CHECK(window_steps({1, 3072}, 100) == 341);
  CHECK(window_steps({1, 1 << 21}, 0) == 1);
  for (const std::int64_t length : {64, 3072})
    for (const std::int64_t size : {1, 32, 100, 10000}) {
      std::int64_t steps = 0;
      for (std::int64_t window = 0; window < 40; ++window) {
        CHECK(steps_before({size, length}, window) == steps);
        steps += window_steps({size, length}, window);
      }
    }
}

TEST_CASE("window: in_parts covers every index once and reports the first error") {
  for (int threads : {1, 3, 8}) {
    std::vector<std::atomic<int>> seen(5);
    in_parts(threads, 5, [&](std::int64_t from, std::int64_t to) {
      for (; from < to; ++from) ++seen[static_cast<std::size_t>(from)];
    });
    for (const auto& count : seen) CHECK(count == 1);
    CHECK_THROWS_WITH(
        in_parts(threads, 5, [](std::int64_t from, std::int64_t) { comera::fail_input("part at {}", from); }),
        "part at 0");
  }
}
