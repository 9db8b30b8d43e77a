#include "lib/tt/surroundings.h"

#include <catch2/catch.hpp>

#include "tests/tt/random_chain.h"

using namespace comera;
using namespace comera::tt;
using test::random_chain;
using test::random_matrix;

namespace {

Matrix weight_of(const Chain& chain) {
  const Pair pair = factors(chain);
  return multiply(pair.left, pair.right);
}

double spectral_norm(const Matrix& a) { return svd(a).values.front(); }

// |dW|_2 / |dG|_2 for a change of core k.
double moved(const Chain& chain, std::size_t k, const Matrix& change) {
  Chain after = chain;
  for (std::size_t i = 0; i < change.values.size(); ++i) after.cores[k][i] += change.values[i];
  const std::int64_t left = chain.layout.ranks[k], right = chain.layout.ranks[k + 1], size = chain.layout.entry_size(k);
  const bool in_core = k < chain.layout.middle();
  const Matrix shaped = reshaped(change, in_core ? left * size : left, in_core ? right : size * right);
  return spectral_norm(difference(weight_of(after), weight_of(chain))) / spectral_norm(shaped);
}

}  // namespace

TEST_CASE("surroundings: no change of a core moves the weight further than the bound") {
  for (const Chain& chain : {random_chain(tt_layout({2, 3}, {4, 2}, {1, 2, 5, 2, 1}), 1),
                             random_chain(tt_layout({3, 4, 2}, {2, 3}, {1, 3, 4, 6, 2, 1}), 20),
                             fix_gauge(random_chain(tt_layout({4, 6}, {20}, {1, 3, 8, 1}), 40))}) {
    const std::vector<double> bounds = surrounding_norms(chain);
    REQUIRE(bounds.size() == chain.layout.cores());
    for (std::size_t k = 0; k < bounds.size(); ++k) {
      double largest = 0;
      for (unsigned seed = 0; seed < 20; ++seed) {
        const auto entries = static_cast<std::int64_t>(chain.cores[k].size());
        largest = std::max(largest, moved(chain, k, random_matrix(1, entries, 100 + seed)));
      }
      CAPTURE(k, largest, bounds[k]);
      CHECK(largest <= bounds[k] * (1 + 1e-9));
      CHECK(largest >= bounds[k] / 10);
    }
  }
}

TEST_CASE("surroundings: of a pair the bound is the norm of the other factor, an identity block included") {
  Chain chain = random_chain(tt_layout({12}, {20}, {1, 5, 1}), 7);
  for (const bool gauge : {false, true}) {
    if (gauge) chain = fix_gauge(chain);
    REQUIRE(chain.layout.gauge == gauge);
    const Pair pair = factors(chain);
    const std::vector<double> bounds = surrounding_norms(chain);
    CHECK(bounds[0] == Approx(spectral_norm(pair.right)));
    CHECK(bounds[1] == Approx(spectral_norm(pair.left)));
    // A change that the other factor carries along its first singular vector reaches the bound.
    const Svd right = svd(pair.right);
    const Matrix along = multiply(random_matrix(12, 1, 8), transposed(first_columns(right.left, 1)));
    CHECK(moved(chain, 0, along) == Approx(bounds[0]));
  }
}

TEST_CASE("surroundings: a core that is zero carries no change of the others") {
  Chain chain = random_chain(tt_layout({6}, {4}, {1, 3, 1}), 9);
  std::fill(chain.cores[1].begin(), chain.cores[1].end(), 0.0);
  const std::vector<double> bounds = surrounding_norms(chain);
  CHECK(bounds[0] == 0);
  CHECK(bounds[1] > 0);
}
