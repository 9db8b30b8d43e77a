#include "lib/tt/parallel.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <stdexcept>
#include <vector>

#include "kernels/host/thread_pool.h"
#include "lib/tt/data_aware.h"
#include "lib/tt/matrix.h"
#include "tests/tt/random_matrix.h"

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

// Fits of layers at once, as in calibrated tensorize.
std::vector<std::vector<std::vector<double>>> fitted_cores(std::int64_t layers) {
  std::vector<std::vector<std::vector<double>>> cores(static_cast<std::size_t>(layers));
  each_apart(layers, [&](std::int64_t i) {
    const std::int64_t in = 48 - 12 * i, out = 32;
    const auto seed = static_cast<unsigned>(10 * i);
    const Matrix w = test::random_matrix(in, out, seed + 1), change = test::random_matrix(in, out, seed + 2);
    const Matrix fit = test::random_moment(in, 1e3, seed + 3), held = test::random_moment(in, 1e3, seed + 4);
    const Matrix fit_products = multiply(fit, change), held_products = multiply(held, change);
    Search search;
    search.bytes = in * out * 2;
    search.shrinkage = {0, 0.1};
    cores[static_cast<std::size_t>(i)] =
        best_candidate(best_target(w, {fit, fit_products}, {held, held_products}), fit, held, search).chain.cores;
  });
  return cores;
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

TEST_CASE("calls apart from each other: fits of layers are the same bytes for any number of threads") {
  const auto wanted = fitted_cores(3);
  for (const int threads : {2, 4}) {
    kernels::ThreadPool pool(threads);
    const UsePool use(pool);
    CHECK(fitted_cores(3) == wanted);
  }
}
