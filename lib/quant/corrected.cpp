#include "lib/quant/corrected.h"

#include <limits>
#include <utility>

namespace comera::quant {
namespace {

using tt::Matrix;

Matrix product_of(const tt::Pair& pair) { return tt::multiply(pair.left, pair.right); }

void add_to(Matrix& to, const Matrix& other) {
  for (std::size_t i = 0; i < to.values.size(); ++i) to.values[i] += other.values[i];
}

}  // namespace

Matrix expand(const Corrected& weight) {
  Matrix all = expand_linear(weight.base);
  if (weight.correction.left.columns > 0) add_to(all, product_of(weight.correction));
  return all;
}

Corrected fit_corrected(const Matrix& weight, const Inputs& inputs, Grid grid, std::int64_t rank,
                        const RoundFactors& round, const FitOptions& options, int rounds) {
  Corrected best;
  double best_loss = std::numeric_limits<double>::infinity();
  const auto consider = [&](Corrected fit) {
    const double loss = tt::output_loss(weight, expand(fit), inputs.held);
    if (loss >= best_loss) return;
    best = std::move(fit);
    best_loss = loss;
  };
  const auto rest_of = [&](Matrix fitted) {
    tt::subtract_from(weight, fitted);
    return fitted;
  };
  const auto correction_of = [&](Matrix target) {
    tt::Pair pair = tt::WhitenedCurve(std::move(target), inputs.fit).pair(rank);
    round(pair);
    return pair;
  };
  const LinearFit on_grid(inputs.fit, options);
  if (rank == 0) {
    consider({on_grid.fit(weight, grid), {}});
    return best;
  }
  for (const bool factors_first : {false, true}) {
    tt::Pair factors;
    if (factors_first) factors = correction_of(weight);
    for (int i = 0; i < rounds; ++i) {
      const bool bare = factors.left.columns == 0;
      const Quantised base = bare ? on_grid.fit(weight, grid) : on_grid.fit(rest_of(product_of(factors)), grid);
      if (!bare) consider({base, factors});
      factors = correction_of(rest_of(expand_linear(base)));
      consider({base, factors});
    }
  }
  return best;
}

}  // namespace comera::quant
