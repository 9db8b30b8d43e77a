#include "lib/tt/chain.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lib/core/error.h"
#include "lib/tt/weighted_table.h"

namespace comera::tt {

template <class Scalar>
void put_exact_rows(const ChainOf<Scalar>& chain, MatrixOf<Scalar>& table, std::int64_t first) {
  for (std::size_t e = 0; e < chain.exact_ids.size(); ++e) {
    const std::int64_t row = chain.exact_ids[e] - first;
    if (row < 0 || row >= table.rows) continue;
    std::copy_n(chain.exact_rows.begin() + static_cast<std::ptrdiff_t>(e) * table.columns, table.columns,
                table.row(row));
  }
}
template void put_exact_rows(const Chain&, Matrix&, std::int64_t);
template void put_exact_rows(const FloatChain&, FloatMatrix&, std::int64_t);

namespace {

// From left to right: [(r_begin s_begin .. s_{end-1}) x r_end]; the identity if there are no cores.
template <class Scalar>
MatrixOf<Scalar> merge_right(const ChainOf<Scalar>& chain, std::size_t begin, std::size_t end) {
  const Sizes& ranks = chain.layout.ranks;
  if (begin == end) return identity<Scalar>(ranks[begin]);
  MatrixOf<Scalar> merged(std::ssize(chain.cores[begin]) / ranks[begin + 1], ranks[begin + 1], chain.cores[begin]);
  for (std::size_t k = begin + 1; k < end; ++k) {
    const std::int64_t left = ranks[k], right = ranks[k + 1], rows = merged.rows;
    const MatrixOf<Scalar> core(left, std::ssize(chain.cores[k]) / left, chain.cores[k]);
    merged = reshaped(multiply(merged, core), rows * core.columns / right, right);
  }
  return merged;
}

// From right to left: [r_begin x (s_begin .. s_{end-1} r_end)].
template <class Scalar>
MatrixOf<Scalar> merge_left(const ChainOf<Scalar>& chain, std::size_t begin, std::size_t end) {
  const Sizes& ranks = chain.layout.ranks;
  MatrixOf<Scalar> merged(ranks[end - 1], std::ssize(chain.cores[end - 1]) / ranks[end - 1], chain.cores[end - 1]);
  for (std::size_t k = end - 1; k-- > begin;) {
    const MatrixOf<Scalar> core(std::ssize(chain.cores[k]) / ranks[k + 1], ranks[k + 1], chain.cores[k]);
    const std::int64_t columns = core.rows / ranks[k] * merged.columns;
    merged = reshaped(multiply(core, merged), ranks[k], columns);
  }
  return merged;
}

Sizes slice(const Sizes& sizes, std::size_t begin, std::size_t end) {
  return Sizes(sizes.begin() + static_cast<std::ptrdiff_t>(begin), sizes.begin() + static_cast<std::ptrdiff_t>(end));
}

template <class Scalar>
MatrixOf<Scalar> expand_table(const ChainOf<Scalar>& chain) {
  MatrixOf<Scalar> table(chain.layout.rows(), chain.layout.columns());
  if (!chain.layout.empty()) {
    const TableFactorsOf<Scalar> factors = table_factors(chain);
    const MatrixOf<Scalar> right =
        regrouped(factors.right, 1, factors.right_rows, factors.rank, factors.right_columns);  // [R x rows columns]
    table = regrouped(multiply(reshaped(factors.left, factors.left_rows * factors.left_columns, factors.rank), right),
                      factors.left_rows, factors.left_columns, factors.right_rows, factors.right_columns);
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
  const Layout& layout = chain.layout;
  check_indices(chain.order, layout.rows(), what, "order");
  check_indices(chain.gauge, layout.columns(), what, "gauge");
  if (layout.sorted != !chain.order.empty() ||
      (layout.sorted && (layout.kind != Kind::tt || std::ssize(chain.order) != layout.rows())))
    fail_input("{}: order has {} entries; wanted one per input of a sorted tt, {}", what, chain.order.size(),
               layout.rows());
  check_indices(chain.exact_ids, layout.kind == Kind::ttm ? layout.rows() : 0, what, "the list of exact rows");
  if (std::ssize(chain.exact_ids) != layout.exact_rows ||
      !std::is_sorted(chain.exact_ids.begin(), chain.exact_ids.end()) ||
      std::ssize(chain.exact_rows) != layout.exact_rows * layout.columns())
    fail_input("{}: {} exact rows hold {} numbers; wanted {} ids that rise and {} numbers for each", what,
               chain.exact_ids.size(), chain.exact_rows.size(), layout.exact_rows, layout.columns());
  if (layout.gauge != !chain.gauge.empty() ||
      (layout.gauge && (layout.kind != Kind::tt || layout.cores() != layout.inputs() + 1 ||
                        std::ssize(chain.gauge) != layout.ranks[layout.middle()])))
    fail_input("{}: gauge has {} entries; wanted one per rank of a tt with one out mode", what, chain.gauge.size());
}

}  // namespace

Chain to_double(const FloatChain& chain) {
  Chain wide{chain.layout, {}, chain.order, chain.gauge, chain.exact_ids, {}};
  for (const std::vector<float>& core : chain.cores) wide.cores.emplace_back(core.begin(), core.end());
  wide.exact_rows.assign(chain.exact_rows.begin(), chain.exact_rows.end());
  return wide;
}

void check_chain(const Chain& chain, const std::string& what) {
  const Layout& layout = chain.layout;
  const std::size_t in = layout.inputs(), out = layout.modes.size() - in;
  if (in == 0 || out == 0 || (layout.kind == Kind::ttm && in != out))
    fail_input("{}: {} in modes and {} out modes are no chain", what, in, out);
  if (layout.ranks.size() != layout.cores() + 1 || layout.ranks.front() != 1 || layout.ranks.back() != 1 ||
      chain.cores.size() != layout.cores())
    fail_input("{}: ranks {} and {} cores do not fit {} modes", what, to_string(layout.ranks), chain.cores.size(),
               layout.cores());
  check_extras(chain, what);
  for (std::size_t k = 0; k < layout.cores(); ++k) {
    if (std::ssize(chain.cores[k]) != product(layout.core_shape(k)))
      fail_input("{}: core {} holds {} numbers; wanted the shape {}", what, k, chain.cores[k].size(),
                 to_string(layout.core_shape(k)));
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

std::int64_t stored_bytes(const Chain& chain, CoreBlocks blocks) {
  std::int64_t bytes = blocks.of(std::ssize(chain.exact_rows)) + 4 * stored_indices(chain);
  for (const auto& core : chain.cores) bytes += blocks.of(std::ssize(core));
  return bytes;
}

Matrix merge_cores(const Chain& chain, std::size_t begin, std::size_t end) { return merge_right(chain, begin, end); }

template <class Scalar>
FactorsOf<Scalar> factors(const ChainOf<Scalar>& chain) {
  const Layout& layout = chain.layout;
  COMERA_CHECK(layout.kind == Kind::tt && !layout.empty());
  MatrixOf<Scalar> left = merge_right(chain, 0, layout.middle());
  if (layout.sorted) left = scatter_rows(left, chain.order);
  MatrixOf<Scalar> right = merge_left(chain, layout.middle(), layout.cores());
  return {std::move(left), layout.gauge ? with_gauge(right, chain.gauge) : std::move(right)};
}

template <class Scalar>
TableFactorsOf<Scalar> table_factors(const ChainOf<Scalar>& chain) {
  const Layout& layout = chain.layout;
  COMERA_CHECK(layout.kind == Kind::ttm && !layout.empty());
  const std::size_t middle = layout.middle(), last = layout.cores();
  const Sizes rows = layout.in_modes(), columns = layout.out_modes();
  const Places left = places(slice(rows, 0, middle), slice(columns, 0, middle));
  const Places right = places(slice(rows, middle, last), slice(columns, middle, last));
  TableFactorsOf<Scalar> made{std::ssize(left.rows),
                              std::ssize(left.columns),
                              layout.ranks[middle],
                              std::ssize(right.rows),
                              std::ssize(right.columns),
                              {},
                              {}};
  const MatrixOf<Scalar> before = merge_right(chain, 0, middle), after = merge_right(chain, middle, last);
  made.left = {made.left_rows, made.left_columns * made.rank};
  for (std::int64_t i = 0; i < made.left_rows; ++i)
    for (std::int64_t j = 0; j < made.left_columns; ++j)
      std::copy_n(before.row(left.rows[static_cast<std::size_t>(i)] + left.columns[static_cast<std::size_t>(j)]),
                  made.rank, made.left.row(i) + j * made.rank);
  made.right = {made.right_rows, made.rank * made.right_columns};
  for (std::int64_t i = 0; i < made.right_rows; ++i)
    for (std::int64_t r = 0; r < made.rank; ++r)
      for (std::int64_t j = 0; j < made.right_columns; ++j)
        made.right(i, r * made.right_columns + j) = after.values[static_cast<std::size_t>(
            r * made.right_rows * made.right_columns + right.rows[static_cast<std::size_t>(i)] +
            right.columns[static_cast<std::size_t>(j)])];
  return made;
}

template <class Scalar>
MatrixOf<Scalar> expand(const ChainOf<Scalar>& chain) {
  if (chain.layout.kind == Kind::ttm) return expand_table(chain);
  if (chain.layout.empty()) return {chain.layout.rows(), chain.layout.columns()};
  const FactorsOf<Scalar> both = factors(chain);
  return multiply(both.left, both.right);
}

Chain chain_of_pair(Pair pair) {
  COMERA_CHECK(pair.left.columns == pair.right.rows);
  Chain chain;
  chain.layout = tt_layout({pair.left.rows}, {pair.right.columns}, {1, pair.left.columns, 1});
  chain.cores = {std::move(pair.left.values), std::move(pair.right.values)};
  return chain;
}

std::vector<std::int32_t> gauge_positions(const std::vector<std::int32_t>& gauge, std::int64_t columns) {
  std::vector<std::int32_t> positions(static_cast<std::size_t>(columns), -1);
  for (std::size_t r = 0; r < gauge.size(); ++r)
    positions[static_cast<std::size_t>(gauge[r])] = static_cast<std::int32_t>(r);
  auto next = static_cast<std::int32_t>(gauge.size());
  for (std::int32_t& position : positions)
    if (position < 0) position = next++;
  return positions;
}

template <class Scalar>
MatrixOf<Scalar> with_gauge(const MatrixOf<Scalar>& stored, const std::vector<std::int32_t>& gauge) {
  const std::int64_t rank = std::ssize(gauge), columns = stored.columns + rank;
  const std::vector<std::int32_t> positions = gauge_positions(gauge, columns);
  MatrixOf<Scalar> full(stored.rows, columns);
  for (std::int64_t r = 0; r < stored.rows; ++r)
    for (std::int64_t j = 0; j < columns; ++j) {
      const std::int64_t from = positions[static_cast<std::size_t>(j)];
      full(r, j) = from >= rank ? stored(r, from - rank) : from == r ? Scalar{1} : Scalar{0};
    }
  return full;
}

std::vector<std::int32_t> inverse(const std::vector<std::int32_t>& order) {
  std::vector<std::int32_t> places(order.size());
  for (std::size_t p = 0; p < order.size(); ++p)
    places[static_cast<std::size_t>(order[p])] = static_cast<std::int32_t>(p);
  return places;
}

template <class Scalar>
MatrixOf<Scalar> gather_rows(const MatrixOf<Scalar>& a, const std::vector<std::int32_t>& order) {
  MatrixOf<Scalar> b(a.rows, a.columns);
  for (std::int64_t p = 0; p < a.rows; ++p) std::copy_n(a.row(order[static_cast<std::size_t>(p)]), a.columns, b.row(p));
  return b;
}

template <class Scalar>
MatrixOf<Scalar> scatter_rows(const MatrixOf<Scalar>& a, const std::vector<std::int32_t>& order) {
  MatrixOf<Scalar> b(a.rows, a.columns);
  for (std::int64_t p = 0; p < a.rows; ++p) std::copy_n(a.row(p), a.columns, b.row(order[static_cast<std::size_t>(p)]));
  return b;
}

template FactorsOf<float> factors(const ChainOf<float>&);
template FactorsOf<double> factors(const ChainOf<double>&);
template TableFactorsOf<float> table_factors(const ChainOf<float>&);
template TableFactorsOf<double> table_factors(const ChainOf<double>&);
template MatrixOf<float> expand(const ChainOf<float>&);
template MatrixOf<double> expand(const ChainOf<double>&);
template MatrixOf<float> with_gauge(const MatrixOf<float>&, const std::vector<std::int32_t>&);
template MatrixOf<double> with_gauge(const MatrixOf<double>&, const std::vector<std::int32_t>&);
template MatrixOf<float> gather_rows(const MatrixOf<float>&, const std::vector<std::int32_t>&);
template MatrixOf<double> gather_rows(const MatrixOf<double>&, const std::vector<std::int32_t>&);
template MatrixOf<float> scatter_rows(const MatrixOf<float>&, const std::vector<std::int32_t>&);
template MatrixOf<double> scatter_rows(const MatrixOf<double>&, const std::vector<std::int32_t>&);

Matrix gather_both(const Matrix& a, const std::vector<std::int32_t>& order) {
  Matrix b(a.rows, a.columns);
  for (std::int64_t p = 0; p < a.rows; ++p) {
    const double* from = a.row(order[static_cast<std::size_t>(p)]);
    for (std::int64_t q = 0; q < a.columns; ++q) b(p, q) = from[order[static_cast<std::size_t>(q)]];
  }
  return b;
}

double chain_error(const Matrix& weight, const Chain& chain) {
  if (chain.layout.kind == Kind::ttm && !chain.layout.pair()) {
    const Matrix fitted = expand(chain);
    return relative_error(weight, fitted.rows > weight.rows ? first_rows(fitted, weight.rows) : fitted);
  }
  constexpr std::int64_t strip = 1024;
  const Pair pair = chain.layout.kind == Kind::tt ? factors(chain)
                                                  : Pair{folded(chain.cores[0], chain.layout.ranks[1]),
                                                         folded(chain.cores[1], chain.layout.columns())};
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
