#include "lib/layers/training/structured_rate.h"

#include <cmath>

namespace comera::layers {
namespace {

// The rate that moves the core by its whole norm: x in the header.
double own_norm(const tt::Layout& layout, std::size_t core, double weight_deviation) {
  const bool in_core = core < layout.inputs();
  const auto mode = static_cast<double>(layout.modes[core]);
  const auto left = static_cast<double>(layout.ranks[core]), right = static_cast<double>(layout.ranks[core + 1]);
  const double terms = in_core ? left * mode : left, results = in_core ? right : mode * right;
  return core_deviation(layout, core, weight_deviation) * (1 / std::sqrt(terms) + 1 / std::sqrt(results));
}

// The factor of x / sqrt(K) for which the layer of reference moves as far as with one rate for all cores.
double reference_factor() {
  const tt::Layout layout = tt::tt_layout({8, 8, 4}, {4, 8, 8}, {1, 8, 16, 16, 16, 8, 1});
  double sum = 0;
  for (std::size_t k = 0; k < layout.cores(); ++k) sum += 1 / own_norm(layout, k, 1 / std::sqrt(256.0 + 256.0));
  return sum / std::sqrt(static_cast<double>(layout.cores()));
}

}  // namespace

double core_deviation(const tt::Layout& layout, std::size_t core, double weight_deviation) {
  return std::pow(weight_deviation, 1 / static_cast<double>(layout.cores())) /
         std::sqrt(static_cast<double>(layout.ranks[core + 1]));
}

double structured_rate(const tt::Layout& layout, std::size_t core, double weight_deviation) {
  if (layout.kind == tt::Kind::ttm) return 1;
  static const double reference = reference_factor();
  return reference * own_norm(layout, core, weight_deviation) / std::sqrt(static_cast<double>(layout.cores()));
}

}  // namespace comera::layers
