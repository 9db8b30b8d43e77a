// fix_gauge of chain.h: A B = (A T)(T⁻¹ B), where T holds the chosen columns of B.
#include <algorithm>
#include <cmath>
#include <optional>

#include "lib/tt/chain.h"

namespace comera::tt {
namespace {

constexpr double too_large = 100;  // larger entries would cost half precision two of its three digits

struct Entry {
  std::int64_t row = 0, column = 0;
  double size = 0;
};

void take_larger(const double* row, std::int64_t i, std::int64_t columns, Entry& entry) {
  for (std::int64_t j = 0; j < columns; ++j)
    if (std::abs(row[j]) > entry.size) entry = {i, j, std::abs(row[j])};
}

Entry largest(const Matrix& a) {
  Entry entry;
  for (std::int64_t i = 0; i < a.rows; ++i) take_larger(a.row(i), i, a.columns, entry);
  return entry;
}

// Column `at.column` replaces the chosen column of row `at.row`: the volume of the block grows by |entry|. Returns the
// largest entry after the exchange.
Entry exchange(ColumnBasis& block, const Entry& at) {
  Matrix& b = block.coefficients;
  const double pivot = b(at.row, at.column);
  double* chosen = b.row(at.row);
  for (std::int64_t j = 0; j < b.columns; ++j) chosen[j] /= pivot;
  chosen[at.column] = 1;
  block.columns[static_cast<std::size_t>(at.row)] = static_cast<std::int32_t>(at.column);
  Entry entry;
  for (std::int64_t i = 0; i < b.rows; ++i) {
    double* row = b.row(i);
    const double factor = row[at.column];
    if (i != at.row && factor != 0) {
      for (std::int64_t j = 0; j < b.columns; ++j) row[j] -= factor * chosen[j];
      row[at.column] = 0;
    }
    take_larger(row, i, b.columns, entry);
  }
  return entry;
}

Matrix chosen_columns(const Matrix& a, const std::vector<std::int32_t>& columns) {
  Matrix block(a.rows, static_cast<std::int64_t>(columns.size()));
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t r = 0; r < block.columns; ++r) block(i, r) = a(i, columns[static_cast<std::size_t>(r)]);
  return block;
}

// The columns that are not chosen, in rising order.
Matrix other_columns(const Matrix& a, const std::vector<std::int32_t>& columns) {
  std::vector<bool> chosen(static_cast<std::size_t>(a.columns));
  for (const std::int32_t column : columns) chosen[static_cast<std::size_t>(column)] = true;
  std::vector<std::int32_t> others;
  for (std::int32_t j = 0; j < a.columns; ++j)
    if (!chosen[static_cast<std::size_t>(j)]) others.push_back(j);
  return chosen_columns(a, others);
}

// |x (a - turn rest)| / |x a| for a few fixed x: measures the rounding errors of solving and exchanging.
double rounding(const Matrix& a, const Matrix& turn, const Matrix& rest) {
  Matrix probe(4, a.rows);
  for (std::size_t i = 0; i < probe.values.size(); ++i) probe.values[i] = (i * 2654435761u >> 16 & 1) != 0 ? 1 : -1;
  return relative_error(multiply(probe, a), multiply(multiply(probe, turn), rest));
}

}  // namespace

Chain fix_gauge(Chain chain, double bound) {
  Layout& layout = chain.layout;
  if (layout.kind != Kind::tt || layout.cores() != layout.inputs() + 1 || layout.gauge) return chain;
  const std::int64_t rank = layout.ranks[layout.middle()], out = layout.columns();
  if (rank > out) return chain;
  const Matrix right(rank, out, chain.cores.back());
  std::optional<ColumnBasis> block = column_basis(right);
  if (!block) return chain;
  // Every exchange multiplies the volume by at least `bound`, and pivoting leaves few exchanges. The limit only stops
  // an endless loop caused by rounding.
  Entry worst = largest(block->coefficients);
  for (std::int64_t swaps = 0; swaps < 4 * rank && worst.size > bound; ++swaps) worst = exchange(*block, worst);
  const Matrix turn = chosen_columns(right, block->columns), others = other_columns(right, block->columns);
  Matrix rest = other_columns(block->coefficients, block->columns);
  if (rounding(others, turn, rest) > 1e-13) {  // too much rounding: solves again from the chosen columns
    rest = others;
    if (!solve_general(turn, rest)) return chain;
  }
  if (largest(rest).size > too_large || rounding(others, turn, rest) > 1e-9) return chain;
  const std::size_t last = layout.inputs() - 1;
  const Matrix core = folded(std::move(chain.cores[last]), rank);
  chain.cores[last] = multiply(core, turn).values;
  chain.cores.back() = std::move(rest.values);
  chain.gauge = std::move(block->columns);
  layout.gauge = true;
  return chain;
}

}  // namespace comera::tt
