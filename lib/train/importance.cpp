#include "lib/train/importance.h"

#include <algorithm>
#include <cmath>

namespace comera::train {
namespace {

// A core [left, size, right] as doubles, the masked diagonal behind it multiplied in.
struct Core {
  std::int64_t left = 1, size = 1, right = 1;
  std::vector<double> values;
};

using Gram = std::vector<double>;  // r x r

Core read_core(const Weights& weights, const layers::TensorTrain& train, std::size_t k) {
  const Parameter& parameter = *train.cores[k];
  const HostBytes host(weights.machine(), parameter.value);
  Core core{train.ranks[k], parameter.shape.elements() / (train.ranks[k] * train.ranks[k + 1]), train.ranks[k + 1], {}};
  for (std::int64_t i = 0; i < parameter.shape.elements(); ++i) core.values.push_back(layers::load(host.tensor(), i));
  return core;
}

void scale_right(Core& core, const std::vector<double>& diagonal) {
  for (std::size_t i = 0; i < core.values.size(); ++i) core.values[i] *= diagonal[i % diagonal.size()];
}

// Gram matrix of the left interface behind a core: sum over a, b, n of G[a, n, i] gram[a, b] G[b, n, j].
Gram step_right(const Gram& gram, const Core& core) {
  Gram next(static_cast<std::size_t>(core.right * core.right));
  std::vector<double> mixed(core.values.size());
  const std::int64_t row = core.size * core.right;
  for (std::int64_t a = 0; a < core.left; ++a)
    for (std::int64_t b = 0; b < core.left; ++b)
      for (std::int64_t i = 0; i < row; ++i) mixed[a * row + i] += gram[a * core.left + b] * core.values[b * row + i];
  for (std::int64_t r = 0; r < core.left * core.size; ++r)
    for (std::int64_t i = 0; i < core.right; ++i)
      for (std::int64_t j = 0; j < core.right; ++j) next[i * core.right + j] += core.values[r * core.right + i] * mixed[r * core.right + j];
  return next;
}

// The core seen from the other end: [right, size, left].
Core mirrored(const Core& core) {
  Core mirror{core.right, core.size, core.left, std::vector<double>(core.values.size())};
  for (std::int64_t a = 0; a < core.left; ++a)
    for (std::int64_t n = 0; n < core.size; ++n)
      for (std::int64_t b = 0; b < core.right; ++b)
        mirror.values[(b * core.size + n) * core.left + a] = core.values[(a * core.size + n) * core.right + b];
  return mirror;
}

std::int64_t cost_of(const layers::TensorTrain& train, std::size_t bond) {
  return train.ranks[bond] * train.sizes[bond] + train.sizes[bond + 1] * train.ranks[bond + 2];
}

// Both interfaces' Gram matrices at every bond; the diagonals count on the left.
void replace_by_shares(const Weights& weights, const layers::TensorTrain& train, double threshold, Chain& chain) {
  const std::size_t order = train.cores.size();
  std::vector<Core> cores;
  for (std::size_t k = 0; k < order; ++k) cores.push_back(read_core(weights, train, k));
  for (auto& diagonal : chain.diagonals)
    for (double& value : diagonal) value = value > threshold ? value : 0;
  std::vector<Gram> left{{1}}, right{{1}};
  for (std::size_t k = 0; k + 1 < order; ++k) {
    Core scaled = cores[k];
    scale_right(scaled, chain.diagonals[k]);
    left.push_back(step_right(left.back(), scaled));
  }
  for (std::size_t k = order - 1; k > 0; --k) {
    Core scaled = cores[k];
    if (k + 1 < order) scale_right(scaled, chain.diagonals[k]);
    right.push_back(step_right(right.back(), mirrored(scaled)));
  }
  for (std::size_t bond = 0; bond + 1 < order; ++bond) {
    const Gram &from_left = left[bond + 1], &from_right = right[order - 1 - bond];
    const std::size_t rank = chain.diagonals[bond].size();
    double whole = 0;
    for (std::size_t i = 0; i < rank * rank; ++i) whole += from_left[i] * from_right[i];
    for (std::size_t j = 0; j < rank; ++j)
      chain.diagonals[bond][j] =
          from_left[j * rank + j] * from_right[j * rank + j] / std::max(whole, 1e-300) / static_cast<double>(cost_of(train, bond));
  }
}

}  // namespace

std::vector<Chain> importances(const Weights& weights, double threshold) {
  std::vector<Chain> chains = read_chains(weights);
  auto chain = chains.begin();
  for (const layers::TensorTrain& train : weights.model().tensor_trains())
    if (!train.cores.empty()) replace_by_shares(weights, train, threshold, *chain++);
  return chains;
}

}  // namespace comera::train
