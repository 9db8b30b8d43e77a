#include "lib/tt/parallel.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <stdexcept>
#include <vector>

#include "kernels/host/thread_pool.h"
#include "lib/tt/matrix.h"

using namespace comera;
using namespace comera::tt;

namespace {

Matrix counted(std::int64_t rows, std::int64_t columns) {
  Matrix a(rows, columns);
  for (std::size_t i = 0; i < a.values.size(); ++i) a.values[i] = static_cast<double>(i * 37 % 101) / 101 - 0.5;
  return a;
}

// Calls of different length, with products and short loops inside.
std::vector<double> results(std::int64_t calls) {
  std::vector<double> all(static_cast<std::size_t>(calls));
  each_apart(calls, [&](std::int64_t i) {
    std::vector<double> parts(5);
    each_alone(std::ssize(parts), [&](std::int64_t part) {
      const Matrix a = counted(260 + 40 * (calls - i), 90 + part);
      parts[static_cast<std::size_t>(part)] = dot(gram(a), multiply_tn(a, a));
    });
    for (const double part : parts) all[static_cast<std::size_t>(i)] += part;
  });
  return all;
}

}  // namespace

TEST_CASE("calls apart from each other: the same bytes for any number of threads, also with loops inside") {
  for (const std::int64_t calls : {1, 2, 7}) {
    const std::vector<double> wanted = results(calls);
    for (const int threads : {1, 2, 5}) {
      kernels::ThreadPool pool(threads);
      const UsePool use(pool);
      CHECK(results(calls) == wanted);
    }
  }
}

TEST_CASE("calls apart from each other: every call runs once, and an exception leaves the others alone") {
  kernels::ThreadPool pool(3);
  const UsePool use(pool);
  std::vector<std::atomic<int>> calls(9);
  std::atomic<int> inside = 0;
  const auto run = [&] {
    each_apart(std::ssize(calls), [&](std::int64_t i) {
      ++calls[static_cast<std::size_t>(i)];
      each_alone(3, [&](std::int64_t) { ++inside; });
      if (i == 4) throw std::runtime_error("fourth");
    });
  };
  CHECK_THROWS_WITH(run(), "fourth");
  for (const std::atomic<int>& count : calls) CHECK(count == 1);
  CHECK(inside == 27);
  each_apart(0, [](std::int64_t) { FAIL(); });
}
