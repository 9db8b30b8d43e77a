// Random chains, and the entries of their dense weights by the formula of lib/io/FORMAT.md.
#pragma once

#include <random>

#include "lib/export/chains.h"
#include "lib/export/evaluator/evaluator.h"
#include "lib/export/graph_layers.h"

namespace comera::exporting {

inline std::vector<float> random_floats(std::int64_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = normal(random);
  return values;
}

inline StoredChain random_chain(const std::string& name, std::int64_t rows, const tt::Layout& layout,
                                std::uint64_t seed) {
  StoredChain chain{name, rows, layout.columns(), {}};
  chain.numbers.layout = layout;
  for (std::size_t k = 0; k < layout.cores(); ++k)
    chain.numbers.cores.push_back(random_floats(tt::product(layout.core_shape(k)), seed + k));
  return chain;
}

// The description of a folded chain under another name.
inline io::ChainSpec spec_of(const StoredChain& chain, const std::string& name) {
  const io::FileShape shape =
      chain.table() ? io::FileShape{chain.rows, chain.columns} : io::FileShape{chain.columns, chain.rows};
  return {
      .name = name, .shape = shape, .layout = chain.layout(), .initial_ranks = chain.layout().ranks, .folded = true};
}

inline StoredChain random_linear(const Sizes& in_modes, const Sizes& out_modes, const Sizes& ranks,
                                 std::uint64_t seed) {
  return random_chain("layer", tt::product(in_modes), tt::tt_layout(in_modes, out_modes, ranks), seed);
}

inline StoredChain random_table(std::int64_t rows, const Sizes& row_modes, const Sizes& column_modes,
                                const Sizes& ranks, std::uint64_t seed) {
  return random_chain("words", rows, tt::ttm_layout(row_modes, column_modes, ranks), seed);
}

// The digits of `number` in base `modes`, folded row major.
inline Sizes digits(std::int64_t number, const Sizes& modes) {
  Sizes found(modes.size());
  for (std::size_t k = modes.size(); k-- > 0; number /= modes[k]) found[k] = number % modes[k];
  return found;
}

// Multiplies a row vector by slices of the cores: entries[k] selects the slice of core k.
inline double chain_entry(const StoredChain& chain, const Sizes& entries) {
  const tt::Layout& layout = chain.layout();
  std::vector<double> row{1.0};
  for (std::size_t k = 0; k < layout.cores(); ++k) {
    std::vector<double> next(static_cast<std::size_t>(layout.ranks[k + 1]), 0.0);
    for (std::int64_t a = 0; a < layout.ranks[k]; ++a)
      for (std::int64_t b = 0; b < layout.ranks[k + 1]; ++b)
        next[static_cast<std::size_t>(b)] +=
            row[static_cast<std::size_t>(a)] *
            chain.numbers
                .cores[k][static_cast<std::size_t>((a * layout.entry_size(k) + entries[k]) * layout.ranks[k + 1] + b)];
    row = next;
  }
  return row[0];
}

inline double linear_entry(const StoredChain& chain, std::int64_t in, std::int64_t out) {
  Sizes entries = digits(in, chain.layout().in_modes());
  const Sizes more = digits(out, chain.layout().out_modes());
  entries.insert(entries.end(), more.begin(), more.end());
  return chain_entry(chain, entries);
}

inline double table_entry(const StoredChain& chain, std::int64_t row, std::int64_t column) {
  const Sizes columns = chain.layout().out_modes();
  const Sizes i = digits(row, chain.layout().in_modes()), j = digits(column, columns);
  Sizes entries;
  for (std::size_t k = 0; k < i.size(); ++k) entries.push_back(i[k] * columns[k] + j[k]);
  return chain_entry(chain, entries);
}

}  // namespace comera::exporting
