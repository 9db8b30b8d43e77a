#include "lib/tt/chain.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lib/core/error.h"
#include "lib/tt/weighted_table.h"

namespace comera::tt {
namespace {

Matrix with_identity(const Matrix& rest, const std::vector<std::int32_t>& gauge, std::int64_t columns) {
  Matrix full(rest.rows, columns);
  std::vector<bool> unit(static_cast<std::size_t>(columns));
  for (std::size_t r = 0; r < gauge.size(); ++r) {
    unit[static_cast<std::size_t>(gauge[r])] = true;
    full(static_cast<std::int64_t>(r), gauge[r]) = 1;
  }
  for (std::int64_t j = 0, from = 0; j < columns; ++j) {
    if (unit[static_cast<std::size_t>(j)]) continue;
    for (std::int64_t r = 0; r < rest.rows; ++r) full(r, j) = rest(r, from);
    ++from;
  }
  return full;
}

// Writes the exact rows into `table`, whose row 0 is row `first` of the chain.
void put_exact_rows(const Chain& chain, Matrix& table, std::int64_t first = 0) {
  for (std::size_t e = 0; e < chain.exact_ids.size(); ++e) {
    const std::int64_t row = chain.exact_ids[e] - first;
    if (row < 0 || row >= table.rows) continue;
    std::copy_n(chain.exact_rows.begin() + static_cast<std::ptrdiff_t>(e) * table.columns, table.columns,
                table.row(row));
  }
}

// Multiplies out the cores of a ttm, with axes in the order of the cores. Then sorts the entries into rows and columns.
Matrix expand_table(const Chain& chain) {
  const Matrix merged = merge_cores(chain, 0, chain.size());
  const Places at = places(chain.in_modes, chain.out_modes);
  Matrix table(chain.rows(), chain.columns());
  for (std::int64_t i = 0; i < table.rows; ++i) {
    const double* from = merged.values.data() + at.rows[static_cast<std::size_t>(i)];
    for (std::int64_t j = 0; j < table.columns; ++j) table(i, j) = from[at.columns[static_cast<std::size_t>(j)]];
  }
  put_exact_rows(chain, table);
  return table;
}

void check_indices(const std::vector<std::int32_t>& indices, std::int64_t limit, const std::string& what,
                   const char* name) {
  std::vector<bool> seen(static_cast<std::size_t>(limit));
  for (const std::int32_t index : indices) {
    if (index < 0 || index >= limit || seen[static_cast<std::size_t>(index)])
      fail_input("{}: {} holds {}, which is out of range or appears twice; wanted distinct numbers below {}", what,
                 name, index, limit);
    seen[static_cast<std::size_t>(index)] = true;
  }
}

void check_extras(const Chain& chain, const std::string& what) {
  check_indices(chain.order, chain.rows(), what, "order");
  check_indices(chain.gauge, chain.columns(), what, "gauge");
  if (!chain.order.empty() && (chain.kind != Kind::tt || static_cast<std::int64_t>(chain.order.size()) != chain.rows()))
    fail_input("{}: order has {} entries; wanted one per input of a tt, {}", what, chain.order.size(), chain.rows());
  check_indices(chain.exact_ids, chain.kind == Kind::ttm ? chain.rows() : 0, what, "the list of exact rows");
  if (!std::is_sorted(chain.exact_ids.begin(), chain.exact_ids.end()) ||
      static_cast<std::int64_t>(chain.exact_rows.size()) !=
          static_cast<std::int64_t>(chain.exact_ids.size()) * chain.columns())
    fail_input("{}: {} exact rows hold {} numbers; wanted ids that rise and {} numbers for each", what,
               chain.exact_ids.size(), chain.exact_rows.size(), chain.columns());
  if (!chain.gauge.empty() && (chain.kind != Kind::tt || chain.out_modes.size() != 1 ||
                               static_cast<std::int64_t>(chain.gauge.size()) != chain.middle()))
    fail_input("{}: gauge has {} entries; wanted one per rank of a tt with one out mode", what, chain.gauge.size());
}

}  // namespace

Sizes Chain::entry_sizes() const {
  Sizes sizes = in_modes;
  if (kind == Kind::tt) sizes.insert(sizes.end(), out_modes.begin(), out_modes.end());
  if (kind == Kind::ttm)
    for (std::size_t k = 0; k < sizes.size(); ++k) sizes[k] *= out_modes[k];
  return sizes;
}

Sizes Chain::core_shape(std::size_t k) const {
  if (kind == Kind::ttm) return {ranks[k], in_modes[k], out_modes[k], ranks[k + 1]};
  const bool last = k + 1 == size();
  const std::int64_t unit = last ? static_cast<std::int64_t>(gauge.size()) : 0;
  return {ranks[k], k < in_modes.size() ? in_modes[k] : out_modes[k - in_modes.size()] - unit, ranks[k + 1]};
}

void check_chain(const Chain& chain, const std::string& what) {
  if (chain.in_modes.empty() || chain.out_modes.empty() ||
      (chain.kind == Kind::ttm && chain.in_modes.size() != chain.out_modes.size()))
    fail_input("{}: {} in modes and {} out modes are no chain", what, chain.in_modes.size(), chain.out_modes.size());
  if (chain.ranks.size() != chain.size() + 1 || chain.ranks.front() != 1 || chain.ranks.back() != 1 ||
      chain.cores.size() != chain.size())
    fail_input("{}: ranks {} and {} cores do not fit {} modes", what, to_string(chain.ranks), chain.cores.size(),
               chain.size());
  check_extras(chain, what);
  for (std::size_t k = 0; k < chain.size(); ++k) {
    if (static_cast<std::int64_t>(chain.cores[k].size()) != product(chain.core_shape(k)))
      fail_input("{}: core {} holds {} numbers; wanted the shape {}", what, k, chain.cores[k].size(),
                 to_string(chain.core_shape(k)));
    for (const double value : chain.cores[k])
      if (!std::isfinite(value)) fail_input("{}: core {} holds {}, which is not finite", what, k, value);
  }
}

std::int64_t stored_numbers(const Chain& chain) {
  std::int64_t sum = 0;
  for (const auto& core : chain.cores) sum += static_cast<std::int64_t>(core.size());
  return sum + static_cast<std::int64_t>(chain.exact_rows.size());
}

std::int64_t stored_indices(const Chain& chain) {
  return static_cast<std::int64_t>(chain.order.size() + chain.gauge.size() + chain.exact_ids.size());
}

std::int64_t stored_bytes(const Chain& chain, int bytes_per_number) {
  return stored_numbers(chain) * bytes_per_number + 4 * stored_indices(chain);
}

Matrix merge_cores(const Chain& chain, std::size_t begin, std::size_t end) {
  Matrix merged = reshaped(identity(chain.ranks[begin]), chain.ranks[begin], chain.ranks[begin]);
  for (std::size_t k = begin; k < end; ++k) {
    const std::int64_t left = chain.ranks[k], right = chain.ranks[k + 1];
    const Matrix core(left, static_cast<std::int64_t>(chain.cores[k].size()) / left, chain.cores[k]);
    const std::int64_t rows = static_cast<std::int64_t>(merged.values.size()) / left;
    merged = multiply(reshaped(std::move(merged), rows, left), core);
    merged = reshaped(std::move(merged), rows * core.columns / right, right);
  }
  return merged;
}

Pair halves(const Chain& chain) {
  COMERA_CHECK(chain.kind == Kind::tt);
  const std::size_t d = chain.in_modes.size();
  const std::int64_t rank = chain.middle();
  Matrix left = merge_cores(chain, 0, d);
  if (!chain.order.empty()) left = scatter_rows(left, chain.order);
  if (!chain.gauge.empty()) {
    const Matrix rest(rank, chain.columns() - rank, chain.cores.back());
    return {std::move(left), with_identity(rest, chain.gauge, chain.columns())};
  }
  return {std::move(left), reshaped(merge_cores(chain, d, chain.size()), rank, chain.columns())};
}

Matrix expand(const Chain& chain) {
  if (chain.kind == Kind::ttm) return expand_table(chain);
  const Pair pair = halves(chain);
  return multiply(pair.left, pair.right);
}

Chain chain_of_pair(Pair pair) {
  COMERA_CHECK(pair.left.columns == pair.right.rows);
  Chain chain;
  chain.in_modes = {pair.left.rows};
  chain.out_modes = {pair.right.columns};
  chain.ranks = {1, pair.left.columns, 1};
  chain.cores = {std::move(pair.left.values), std::move(pair.right.values)};
  return chain;
}

Matrix gather_rows(const Matrix& a, const std::vector<std::int32_t>& order) {
  Matrix b(a.rows, a.columns);
  for (std::int64_t p = 0; p < a.rows; ++p) std::copy_n(a.row(order[static_cast<std::size_t>(p)]), a.columns, b.row(p));
  return b;
}

Matrix scatter_rows(const Matrix& a, const std::vector<std::int32_t>& order) {
  Matrix b(a.rows, a.columns);
  for (std::int64_t p = 0; p < a.rows; ++p) std::copy_n(a.row(p), a.columns, b.row(order[static_cast<std::size_t>(p)]));
  return b;
}

Matrix gather_both(const Matrix& a, const std::vector<std::int32_t>& order) {
  Matrix b(a.rows, a.columns);
  for (std::int64_t p = 0; p < a.rows; ++p) {
    const double* from = a.row(order[static_cast<std::size_t>(p)]);
    for (std::int64_t q = 0; q < a.columns; ++q) b(p, q) = from[order[static_cast<std::size_t>(q)]];
  }
  return b;
}

double chain_error(const Matrix& weight, const Chain& chain) {
  if (chain.kind == Kind::ttm && !(chain.size() == 2 && chain.out_modes[0] == 1 && chain.in_modes[1] == 1)) {
    const Matrix fitted = expand(chain);
    return relative_error(weight, fitted.rows > weight.rows ? first_rows(fitted, weight.rows) : fitted);
  }
  constexpr std::int64_t strip = 1024;
  const Pair pair = chain.kind == Kind::tt
                        ? halves(chain)
                        : Pair{folded(chain.cores[0], chain.ranks[1]), folded(chain.cores[1], chain.columns())};
  double error = 0, norm = 0;
  for (std::int64_t first = 0; first < weight.rows; first += strip) {
    const std::int64_t rows = std::min(strip, weight.rows - first);
    const auto part = [&](const Matrix& a) {
      return Matrix(rows, a.columns, std::vector<double>(a.row(first), a.row(first) + rows * a.columns));
    };
    const Matrix wanted = part(weight);
    Matrix fitted = multiply(part(pair.left), pair.right);
    put_exact_rows(chain, fitted, first);
    error += squared_norm(difference(wanted, fitted));
    norm += squared_norm(wanted);
  }
  if (norm == 0) return error == 0 ? 0 : std::numeric_limits<double>::infinity();
  return std::sqrt(error / norm);
}

double relative_error(const Matrix& a, const Matrix& b) {
  const double error = squared_norm(difference(a, b)), norm = squared_norm(a);
  if (norm == 0) return error == 0 ? 0 : std::numeric_limits<double>::infinity();
  return std::sqrt(error / norm);
}

}  // namespace comera::tt
