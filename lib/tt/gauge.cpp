// fix_gauge of chain.h: A B = (A T)(T⁻¹ B) with T the chosen columns of B.
#include <algorithm>
#include <cmath>

#include "lib/tt/chain.h"

namespace comera::tt {
namespace {

constexpr double too_large = 100;  // entries beyond it would cost half precision two of its three digits

// Columns of T⁻¹ B other than the chosen; T⁻¹ B itself, with the identity at the chosen columns, while columns are exchanged.
struct Block {
  Matrix right;                       // T⁻¹ B
  std::vector<std::int32_t> columns;  // chosen; column columns[r] is e_r
};

struct Entry {
  std::int64_t row = 0, column = 0;
  double size = 0;
};

Entry largest(const Matrix& a) {
  Entry entry;
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t j = 0; j < a.columns; ++j)
      if (std::abs(a(i, j)) > entry.size) entry = {i, j, std::abs(a(i, j))};
  return entry;
}

// Column `at.column` takes the place of the chosen column of row `at.row`: the volume of the block grows by |entry|.
void exchange(Block& block, const Entry& at) {
  Matrix& b = block.right;
  const double pivot = b(at.row, at.column);
  double* chosen = b.row(at.row);
  for (std::int64_t j = 0; j < b.columns; ++j) chosen[j] /= pivot;
  for (std::int64_t i = 0; i < b.rows; ++i) {
    const double factor = b(i, at.column);
    if (i == at.row || factor == 0) continue;
    double* row = b.row(i);
    for (std::int64_t j = 0; j < b.columns; ++j) row[j] -= factor * chosen[j];
    row[at.column] = 0;
  }
  chosen[at.column] = 1;
  block.columns[static_cast<std::size_t>(at.row)] = static_cast<std::int32_t>(at.column);
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

}  // namespace

Chain fix_gauge(Chain chain, double bound) {
  const std::int64_t rank = chain.middle(), out = chain.kind == Kind::tt ? chain.columns() : 0;
  if (chain.kind != Kind::tt || chain.out_modes.size() != 1 || !chain.gauge.empty() || rank > out) return chain;
  const Matrix right(rank, out, chain.cores.back());
  Block block{right, pivot_columns(right, rank)};
  if (!solve_general(chosen_columns(right, block.columns), block.right)) return chain;
  // Every exchange multiplies the volume by at least `bound`, and pivoting leaves few: the limit only ends what rounding would repeat for ever.
  for (std::int64_t swaps = 0; swaps < 4 * rank; ++swaps) {
    const Entry worst = largest(block.right);
    if (worst.size <= bound) break;
    exchange(block, worst);
  }
  const Matrix turn = chosen_columns(right, block.columns);  // solved afresh: the exchanges have rounded
  Matrix rest = other_columns(right, block.columns);
  const Matrix before = rest;
  if (!solve_general(turn, rest) || largest(rest).size > too_large || relative_error(before, multiply(turn, rest)) > 1e-9) return chain;
  const std::size_t last = chain.in_modes.size() - 1;
  const Matrix core = folded(std::move(chain.cores[last]), rank);
  chain.cores[last] = multiply(core, turn).values;
  chain.cores.back() = std::move(rest.values);
  chain.gauge = std::move(block.columns);
  return chain;
}

}  // namespace comera::tt
