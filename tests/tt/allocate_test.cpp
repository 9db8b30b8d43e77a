#include "lib/tt/allocate.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <random>

#include "lib/core/error.h"

using namespace comera;
using namespace comera::tt;

namespace {

LossCurve curve(std::int64_t in, std::int64_t out, double decay, bool gauge, std::int64_t ranks = 0) {
  LossCurve layer;
  const std::int64_t largest = ranks ? ranks : std::min(in, out);
  for (std::int64_t r = 0; r <= largest; ++r) {
    layer.losses.push_back(r == largest && !ranks ? 0 : std::pow(decay, static_cast<double>(r)));
    layer.bytes.push_back(4 * (r * (in + out) - (gauge ? r * r - r : 0)));
  }
  layer.dense_bytes = 4 * in * out;
  return layer;
}

// The smallest weighted loss within the budget. Tries all combinations of options.
double brute_force(const std::vector<LossCurve>& layers, std::int64_t budget, std::size_t at = 0) {
  if (at == layers.size()) return 0;
  const LossCurve& layer = layers[at];
  double best = INFINITY;
  const auto offer = [&](std::int64_t bytes, double loss) {
    if (bytes <= budget)
      best = std::min(best, layer.weight * loss / layer.losses[0] + brute_force(layers, budget - bytes, at + 1));
  };
  for (std::size_t r = 1; r < layer.losses.size(); ++r) offer(layer.bytes[r], layer.losses[r]);
  offer(layer.dense_bytes, 0);
  return best;
}

}  // namespace

TEST_CASE("water-filling reaches the optimum on the convex hull, and is near it between its points") {
  std::mt19937 engine(3);
  std::uniform_real_distribution<double> uniform(0.3, 0.9);
  for (int i = 0; i < 40; ++i) {
    std::vector<LossCurve> layers{curve(6, 8, uniform(engine), i % 2), curve(9, 5, uniform(engine), i % 2),
                                  curve(7, 7, uniform(engine), i % 2)};
    layers[1].weight = 1 + 3 * uniform(engine);
    const std::int64_t least = smallest_bytes(layers);
    double largest_gain = 0;  // of one rank step: the possible loss of a budget between two points of the hull
    for (const LossCurve& layer : layers)
      largest_gain = std::max(largest_gain, layer.weight * (layer.losses[1] - layer.losses[2]) / layer.losses[0]);
    for (const std::int64_t more : {0, 40, 111, 200, 333, 480}) {
      const Allocation filled = water_fill(layers, least + more, 0);
      const double best = brute_force(layers, least + more);
      CHECK(filled.bytes <= least + more);
      CHECK(filled.loss >= best - 1e-12);
      CHECK(filled.loss <= best + largest_gain);
      // Within the bytes that it used, no allocation is better by more than the gain of the bytes that it could not
      // spend.
      CHECK(filled.loss <= brute_force(layers, filled.bytes) + largest_gain);
    }
  }
}

TEST_CASE("water-filling reaches the exact optimum with equal costs per rank") {
  std::vector<LossCurve> layers{curve(6, 6, 0.5, false, 3), curve(6, 6, 0.7, false, 3), curve(6, 6, 0.85, false, 3)};
  for (LossCurve& layer : layers) layer.may_be_dense = false, layer.dense_bytes = 1 << 20;
  for (std::int64_t ranks = 3; ranks <= 9; ++ranks) {
    const Allocation filled = water_fill(layers, ranks * 48, 0);
    CHECK(filled.bytes == ranks * 48);
    double best = INFINITY;
    for (int a = 1; a <= 3; ++a)
      for (int b = 1; b <= 3; ++b)
        for (int c = 1; c <= 3; ++c)
          if (a + b + c <= ranks) best = std::min(best, std::pow(0.5, a) + std::pow(0.7, b) + std::pow(0.85, c));
    CHECK(filled.loss == Approx(best).epsilon(1e-12));
  }
}

TEST_CASE("a larger budget never increases the loss, the floor holds, ranks are rounded") {
  std::vector<LossCurve> layers;
  for (int i = 0; i < 6; ++i) layers.push_back(curve(64, i % 2 ? 64 : 128, 0.8 + 0.03 * i, true));
  double before = INFINITY;
  for (std::int64_t budget = smallest_bytes(layers); budget < 200000; budget += 5000) {
    const Allocation filled = water_fill(layers, budget, 0.5), even = by_share(layers, budget);
    CHECK(filled.bytes <= budget);
    CHECK(even.bytes <= budget);
    CHECK(filled.loss <= before * 1.02 + 1e-12);  // floors change with the budget
    before = filled.loss;
    for (std::size_t l = 0; l < layers.size(); ++l)
      if (!filled.layers[l].dense && !even.layers[l].dense)
        CHECK(filled.layers[l].rank >= static_cast<std::int64_t>(0.5 * static_cast<double>(even.layers[l].rank)));
  }
  for (LossCurve& layer : layers) layer.multiple = 8;
  for (const Allotment& a : water_fill(layers, 60000, 0).layers) CHECK((a.dense || a.rank <= 8 || a.rank % 8 == 0));
}

TEST_CASE("a uniform share spends its budget to the last rank that fits") {
  std::vector<LossCurve> layers;
  for (int l = 0; l < 36; ++l)
    layers.push_back(l % 6 < 4 ? curve(384, 384, 0.98, false) : curve(384, 1536, 0.98, false));
  std::int64_t dense = 0;
  for (const LossCurve& layer : layers) dense += layer.dense_bytes;
  for (const int cut : {2, 3, 5, 10, 20}) {
    const std::int64_t budget = dense / cut;
    const Allocation even = by_share(layers, budget);
    CHECK(even.bytes <= budget);
    // No further rank of the smallest layers fits.
    CHECK(budget - even.bytes < layers[0].bytes[2] - layers[0].bytes[1]);
    CHECK(static_cast<double>(even.bytes) >= 0.995 * static_cast<double>(budget));
    for (std::size_t l = 0; l < layers.size(); ++l) {
      const double one_rank = static_cast<double>(layers[l].bytes[2] - layers[l].bytes[1]);
      const double excess =
          static_cast<double>(even.layers[l].bytes) - static_cast<double>(layers[l].dense_bytes) / cut;
      CHECK(std::abs(excess) <= one_rank);
    }
  }
}

TEST_CASE("a layer whose compressed form costs as much as dense stays dense") {
  std::vector<LossCurve> layers{curve(16, 16, 0.9, false), curve(16, 16, 0.2, false)};
  CHECK(by_rank(layers, 8).layers[0].dense);  // 8 (16 + 16) = 16 * 16
  CHECK_FALSE(by_rank(layers, 7).layers[0].dense);
  CHECK(by_rank(layers, 100).bytes == 2 * 1024);
  layers[0].may_be_dense = false;
  CHECK(by_rank(layers, 8).layers[0].rank == 8);
  const Allocation all = water_fill(layers, 1 << 20, 0.5);
  CHECK(all.loss == 0);
}

TEST_CASE("largest_rank excludes slower ranks, and a tolerance falls back to dense") {
  std::vector<LossCurve> layers{curve(16, 16, 0.9, true)};
  layers[0].largest_rank = 5;
  for (const Allotment& a : water_fill(layers, 900, 0).layers) CHECK((a.dense || a.rank <= 5));
  CHECK(by_tolerance(layers, 1e-6).layers[0].dense);
  const Allocation loose = by_tolerance(layers, 0.95);
  CHECK(loose.layers[0].rank == 1);                                          // sqrt(0.9) = .949
  CHECK(by_tolerance({curve(30, 40, 0.5, true)}, 0.1).layers[0].rank == 7);  // sqrt(0.5^7) = .088
}

TEST_CASE("an impossible budget is an error that contains the smallest size") {
  const std::vector<LossCurve> layers{curve(16, 16, 0.9, false), curve(8, 8, 0.5, false)};
  CHECK(smallest_bytes(layers) == 4 * (32 + 16));
  CHECK_THROWS_WITH(water_fill(layers, 191), Catch::Contains("the least possible is 192 bytes"));
  CHECK(water_fill(layers, 192).bytes == 192);
}

TEST_CASE("allotting a model of 7B shapes is fast") {
  std::vector<LossCurve> layers;
  for (int i = 0; i < 224; ++i) layers.push_back(curve(4096, i % 3 ? 4096 : 11008, 0.995, true, 700));
  const auto begin = std::chrono::steady_clock::now();
  const Allocation filled = water_fill(layers, 224LL * 4 * 4096 * 1000);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  CHECK(filled.bytes <= 224LL * 4 * 4096 * 1000);
  CHECK(seconds < 2);
}
