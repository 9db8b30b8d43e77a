#include "lib/layers/training/structured_rate.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "lib/tt/chain.h"
#include "tests/tt/random_matrix.h"

using namespace comera;
using namespace comera::layers;

namespace {

tt::Chain initial_chain(const tt::Layout& layout, double weight_deviation) {
  tt::Chain chain;
  chain.layout = layout;
  for (std::size_t k = 0; k < layout.cores(); ++k) {
    tt::Matrix core = test::random_matrix(1, tt::product(layout.core_shape(k)), 7 + static_cast<unsigned>(k));
    for (double& value : core.values) value *= core_deviation(layout, k, weight_deviation);
    chain.cores.push_back(core.values);
  }
  return chain;
}

double largest_singular_value(const tt::Matrix& a) {
  tt::Matrix x = test::random_matrix(a.columns, 1, 3);
  double norm = 0;
  for (int i = 0; i < 60; ++i) {
    x = tt::multiply_tn(a, tt::multiply(a, x));
    norm = std::sqrt(tt::squared_norm(x));
    for (double& value : x.values) value /= norm;
  }
  return std::sqrt(norm);
}

// The change of the weight, as a part of its norm, by a step of size `rate` of one core with signs of rank 1.
double relative_change(const tt::Chain& chain, const tt::Matrix& weight, std::size_t k, double rate) {
  tt::Chain moved = chain;
  const tt::Sizes shape = chain.layout.core_shape(k);
  const bool in_core = k < chain.layout.inputs();
  const std::int64_t terms = in_core ? shape[0] * shape[1] : shape[0];
  const auto count = static_cast<std::int64_t>(chain.cores[k].size());
  const tt::Matrix left = test::random_matrix(terms, 1, 50), right = test::random_matrix(1, count / terms, 51);
  for (std::int64_t i = 0; i < count; ++i)
    moved.cores[k][static_cast<std::size_t>(i)] +=
        std::copysign(rate, left.values[static_cast<std::size_t>(i / (count / terms))] *
                                right.values[static_cast<std::size_t>(i % (count / terms))]);
  return largest_singular_value(tt::difference(tt::expand(moved), weight)) / largest_singular_value(weight);
}

}  // namespace

TEST_CASE("structured rates move a weight by the same share, whatever modes, ranks and order are") {
  const std::vector<tt::Layout> layouts = {
      tt::tt_layout({8, 8}, {8, 8}, {1, 8, 16, 8, 1}),
      tt::tt_layout({8, 8}, {8, 8}, {1, 8, 32, 8, 1}),
      tt::tt_layout({16, 16}, {16, 16}, {1, 16, 32, 16, 1}),
      tt::tt_layout({4, 4, 4}, {4, 4, 4}, {1, 4, 16, 16, 16, 4, 1}),
      tt::tt_layout({8, 6, 6}, {8, 6, 6}, {1, 8, 20, 20, 20, 6, 1}),
      tt::tt_layout({4, 4, 4, 4}, {4, 4, 4, 4}, {1, 4, 16, 16, 16, 16, 16, 4, 1}),
      tt::tt_layout({128}, {256}, {1, 16, 1}),
  };
  double least = 1e9, most = 0, least_uniform = 1e9, most_uniform = 0;
  for (const tt::Layout& layout : layouts) {
    const double deviation = 1 / std::sqrt(static_cast<double>(layout.rows() + layout.columns()));
    const tt::Chain chain = initial_chain(layout, deviation);
    const tt::Matrix weight = tt::expand(chain);
    double structured = 0, uniform = 0;  // of all cores together, as independent movements
    for (std::size_t k = 0; k < layout.cores(); ++k) {
      const double rate = structured_rate(layout, k, deviation);
      structured += std::pow(relative_change(chain, weight, k, 1e-3 * rate), 2);
      uniform += std::pow(relative_change(chain, weight, k, 1e-3), 2);
    }
    structured = std::sqrt(structured), uniform = std::sqrt(uniform);
    INFO(layout.modes.size() << " cores, middle rank " << layout.ranks[layout.middle()] << ": " << structured << ", "
                             << uniform);
    CHECK(structured > 0);
    least = std::min(least, structured), most = std::max(most, structured);
    least_uniform = std::min(least_uniform, uniform), most_uniform = std::max(most_uniform, uniform);
  }
  CHECK(most / least < 1.5);
  CHECK(most_uniform / least_uniform > 2);
}

TEST_CASE("structured rates move the layer of reference as far as one rate for all cores does") {
  const tt::Layout layout = tt::tt_layout({8, 8, 4}, {4, 8, 8}, {1, 8, 16, 16, 16, 8, 1});
  const double deviation = 1 / std::sqrt(512.0);
  const tt::Chain chain = initial_chain(layout, deviation);
  const tt::Matrix weight = tt::expand(chain);
  double structured = 0, uniform = 0;
  for (std::size_t k = 0; k < layout.cores(); ++k) {
    const double rate = structured_rate(layout, k, deviation);
    structured += relative_change(chain, weight, k, 1e-4 * rate), uniform += relative_change(chain, weight, k, 1e-4);
  }
  CHECK(structured / uniform == Approx(1).epsilon(0.2));
}

TEST_CASE("cores of a table have one rate") {
  const tt::Layout layout = tt::ttm_layout({4, 5}, {4, 8}, {1, 16, 1});
  for (std::size_t k = 0; k < layout.cores(); ++k) CHECK(structured_rate(layout, k, 1) == 1);
}
