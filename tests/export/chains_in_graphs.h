// Random chains, and the entries of their dense weights by the formula of lib/io/FORMAT.md.
#pragma once

#include <random>

#include "lib/export/chains.h"
#include "lib/export/evaluator.h"
#include "lib/export/graph_layers.h"

namespace comera::exporting {

inline std::vector<float> random_floats(std::int64_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = normal(random);
  return values;
}

inline std::int64_t product_of(const Sizes& sizes) {
  std::int64_t product = 1;
  for (const std::int64_t size : sizes) product *= size;
  return product;
}

inline Chain random_linear(const Sizes& in_modes, const Sizes& out_modes, const Sizes& ranks, std::uint64_t seed) {
  Chain chain;
  chain.name = "layer";
  chain.rows = product_of(in_modes);
  chain.columns = product_of(out_modes);
  chain.left_modes = in_modes;
  chain.right_modes = out_modes;
  chain.ranks = ranks;
  Sizes modes = in_modes;
  modes.insert(modes.end(), out_modes.begin(), out_modes.end());
  for (std::size_t k = 0; k < modes.size(); ++k)
    chain.cores.push_back(random_floats(ranks[k] * modes[k] * ranks[k + 1], seed + k));
  return chain;
}

inline Chain random_table(std::int64_t rows, const Sizes& row_modes, const Sizes& column_modes, const Sizes& ranks,
                          std::uint64_t seed) {
  Chain chain;
  chain.name = "words";
  chain.table = true;
  chain.rows = rows;
  chain.columns = product_of(column_modes);
  chain.left_modes = row_modes;
  chain.right_modes = column_modes;
  chain.ranks = ranks;
  for (std::size_t k = 0; k < row_modes.size(); ++k)
    chain.cores.push_back(random_floats(ranks[k] * row_modes[k] * column_modes[k] * ranks[k + 1], seed + k));
  return chain;
}

// The digits of `number` in base `modes`, folded row major.
inline Sizes digits(std::int64_t number, const Sizes& modes) {
  Sizes found(modes.size());
  for (std::size_t k = modes.size(); k-- > 0; number /= modes[k]) found[k] = number % modes[k];
  return found;
}

// Multiplies a row vector by slices of the cores: entries[k] selects the slice of core k, which has sizes[k] slices.
inline double chain_entry(const Chain& chain, const Sizes& entries, const Sizes& sizes) {
  std::vector<double> row{1.0};
  for (std::size_t k = 0; k < chain.cores.size(); ++k) {
    std::vector<double> next(static_cast<std::size_t>(chain.ranks[k + 1]), 0.0);
    for (std::int64_t a = 0; a < chain.ranks[k]; ++a)
      for (std::int64_t b = 0; b < chain.ranks[k + 1]; ++b)
        next[static_cast<std::size_t>(b)] +=
            row[static_cast<std::size_t>(a)] *
            chain.cores[k][static_cast<std::size_t>((a * sizes[k] + entries[k]) * chain.ranks[k + 1] + b)];
    row = next;
  }
  return row[0];
}

inline double linear_entry(const Chain& chain, std::int64_t in, std::int64_t out) {
  Sizes entries = digits(in, chain.left_modes), sizes = chain.left_modes;
  const Sizes more = digits(out, chain.right_modes);
  entries.insert(entries.end(), more.begin(), more.end());
  sizes.insert(sizes.end(), chain.right_modes.begin(), chain.right_modes.end());
  return chain_entry(chain, entries, sizes);
}

inline double table_entry(const Chain& chain, std::int64_t row, std::int64_t column) {
  const Sizes i = digits(row, chain.left_modes), j = digits(column, chain.right_modes);
  Sizes entries, sizes;
  for (std::size_t k = 0; k < i.size(); ++k) {
    entries.push_back(i[k] * chain.right_modes[k] + j[k]);
    sizes.push_back(chain.left_modes[k] * chain.right_modes[k]);
  }
  return chain_entry(chain, entries, sizes);
}

}  // namespace comera::exporting
