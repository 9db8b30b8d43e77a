#include "lib/quant/trained_grid.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "kernels/host/thread_pool.h"
#include "lib/tt/parallel.h"
#include "tests/tt/random_matrix.h"

using namespace comera;
using namespace comera::quant;

namespace {

constexpr std::int64_t in = 70, out = 24;  // blocks of 32, 32 and 6

tt::Matrix draws(unsigned seed) {
  tt::Matrix numbers = test::random_matrix(in, out, seed);
  for (double& number : numbers.values) number *= 0.1;
  return numbers;
}

std::vector<float> floats(const tt::Matrix& matrix) { return {matrix.values.begin(), matrix.values.end()}; }

double distance(const std::vector<float>& a, const tt::Matrix& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b.values[i]) * (a[i] - b.values[i]);
  return sum;
}

}  // namespace

TEST_CASE("trained grid: begins with the numbers of the base, and packs what it expands") {
  const tt::Matrix weight = draws(1);
  for (const Grid grid : all_grids) {
    INFO(name_of(grid));
    const Quantised base = round_linear(weight, grid);
    TrainedGrid trained(base, floats(weight));
    CHECK(trained.packed().bytes == base.bytes);
    std::vector<float> numbers(floats(weight).size());
    trained.expand(numbers);
    CHECK(distance(numbers, expand_linear(base)) == 0);
    const std::vector<float> gradient = floats(draws(2));
    for (int step = 0; step < 20; ++step) trained.step(gradient, 0.05, step);
    trained.round();
    trained.expand(numbers);
    CHECK(distance(numbers, expand_linear(base)) > 0);
    CHECK(distance(numbers, expand_linear(trained.packed())) == 0);
  }
}

TEST_CASE("trained grid: the same numbers for any number of threads") {
  const tt::Matrix weight = draws(7);
  std::vector<float> numbers[2];
  for (const int threads : {1, 3}) {
    kernels::ThreadPool pool(threads);
    const tt::UsePool use(pool);
    TrainedGrid trained(round_linear(weight, Grid::q4_1), floats(weight));
    for (int step = 0; step < 9; ++step) trained.step(floats(draws(8 + static_cast<unsigned>(step))), 0.05, step);
    numbers[threads / 3].resize(weight.values.size());
    trained.expand(numbers[threads / 3]);
  }
  CHECK(numbers[0] == numbers[1]);
}

TEST_CASE("trained grid: a block without a scale has finite numbers") {
  tt::Matrix weight = draws(5);
  for (std::int64_t i = 0; i < 32; ++i) weight(i, 3) = 0;
  TrainedGrid trained(round_linear(weight, Grid::q2_0), floats(weight));
  for (int step = 0; step < 5; ++step) trained.step(floats(draws(6)), 0.01, step);
  trained.round();
  std::vector<float> numbers(floats(weight).size());
  trained.expand(numbers);
  for (const float number : numbers) CHECK(std::isfinite(number));
  CHECK(distance(numbers, expand_linear(trained.packed())) == 0);
}

// The loss |W - T|^2 / 2 of another weight T than the one that was rounded.
TEST_CASE("trained grid: steps along the gradient come closer to another weight") {
  const tt::Matrix first = draws(3);
  tt::Matrix target = first;
  const tt::Matrix move = draws(4);
  for (std::size_t i = 0; i < target.values.size(); ++i) target.values[i] += 0.5 * move.values[i];
  for (const Grid grid : {Grid::q4_1, Grid::q4_0, Grid::q3_0, Grid::q2_0, Grid::q3_0g64}) {
    INFO(name_of(grid));
    TrainedGrid trained(round_linear(first, grid), floats(first));
    std::vector<float> numbers(floats(first).size());
    trained.expand(numbers);
    const double before = distance(numbers, target);
    constexpr int steps = 400;
    for (int step = 0; step < steps; ++step) {
      std::vector<float> gradient(numbers.size());
      for (std::size_t i = 0; i < numbers.size(); ++i) gradient[i] = numbers[i] - static_cast<float>(target.values[i]);
      trained.step(gradient, 0.02 * (steps - step) / steps, step);
      trained.expand(numbers);
    }
    CHECK(distance(numbers, target) < 0.6 * before);
  }
}
