#include "lib/export/chains.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "lib/core/error.h"
#include "lib/core/stop.h"

namespace comera::exporting {
namespace {

std::int64_t product(const Sizes& sizes, std::size_t first, std::size_t last) {
  return std::accumulate(sizes.begin() + static_cast<std::ptrdiff_t>(first),
                         sizes.begin() + static_cast<std::ptrdiff_t>(last), std::int64_t{1}, std::multiplies<>());
}

Matrix as_matrix(const std::vector<float>& values, std::int64_t rows) {
  return {rows, static_cast<std::int64_t>(values.size()) / rows, values};
}

// (m1, n1, m2, n2, last) to (m1, m2, n1, n2, last).
std::vector<float> interleave(const std::vector<float>& in, std::int64_t m1, std::int64_t n1, std::int64_t m2,
                              std::int64_t n2, std::int64_t last) {
  std::vector<float> out(in.size());
  const float* from = in.data();
  for (std::int64_t i = 0; i < m1; ++i)
    for (std::int64_t j = 0; j < n1; ++j)
      for (std::int64_t k = 0; k < m2; ++k)
        for (std::int64_t l = 0; l < n2; ++l, from += last)
          std::copy_n(from, last, out.begin() + ((((i * m2 + k) * n1 + j) * n2 + l) * last));
  return out;
}

// Multiplies cores [first, last) of a table: [left rank, rows, columns, right rank].
std::vector<float> merge_table(const Chain& chain, std::size_t first, std::size_t last) {
  std::int64_t m = 1, n = 1;
  const std::int64_t r = chain.ranks[first];
  std::vector<float> merged(static_cast<std::size_t>(r * r), 0.0F);
  for (std::int64_t i = 0; i < r; ++i) merged[static_cast<std::size_t>(i * r + i)] = 1.0F;
  for (std::size_t k = first; k < last; ++k) {
    const Matrix next = multiply(as_matrix(merged, r * m * n), as_matrix(chain.cores[k], chain.ranks[k]));
    const std::int64_t m2 = chain.left_modes[k], n2 = chain.right_modes[k];
    // The left rank acts as an additional, outermost row mode.
    merged = interleave(next.values, r * m, n, m2, n2, chain.ranks[k + 1]);
    m *= m2;
    n *= n2;
  }
  return merged;
}

Matrix merge_left(const Chain& chain) {
  Matrix left = as_matrix(chain.cores[0], chain.left_modes[0]);
  for (std::size_t k = 1; k < chain.middle(); ++k) {
    left = multiply(left, as_matrix(chain.cores[k], chain.ranks[k]));
    left = as_matrix(left.values, left.rows * chain.left_modes[k]);
  }
  return left;
}

Matrix merge_right(const Chain& chain) {
  const std::size_t middle = chain.middle(), last = chain.cores.size();
  Matrix right = as_matrix(chain.cores[last - 1], chain.ranks[last - 1]);
  for (std::size_t k = last - 1; k-- > middle;) {
    right = multiply(as_matrix(chain.cores[k], chain.ranks[k] * chain.right_modes[k - middle]), right);
    right = as_matrix(right.values, chain.ranks[k]);
  }
  return right;
}

// Inserts the identity block and the stored columns at their places.
Matrix widen(const Matrix& rest, const std::vector<std::int32_t>& columns) {
  const auto width = static_cast<std::int64_t>(columns.size());
  Matrix out{rest.rows, width, std::vector<float>(static_cast<std::size_t>(rest.rows * width))};
  for (std::int64_t r = 0; r < rest.rows; ++r)
    for (std::int64_t j = 0; j < width; ++j) {
      const std::int64_t from = columns[static_cast<std::size_t>(j)];
      const float value = from >= rest.rows ? rest.values[static_cast<std::size_t>(r * rest.columns + from - rest.rows)]
                          : from == r       ? 1.0F
                                            : 0.0F;
      out.values[static_cast<std::size_t>(r * width + j)] = value;
    }
  return out;
}

Matrix row_of(const Matrix& half, std::int64_t row, std::int64_t height) {
  const auto begin = half.values.begin() + row * half.columns;
  return {height, half.columns / height, {begin, begin + half.columns}};
}

}  // namespace

Matrix multiply(const Matrix& a, const Matrix& b) {
  COMERA_CHECK(a.columns == b.rows);
  Matrix out{a.rows, b.columns, std::vector<float>(static_cast<std::size_t>(a.rows * b.columns))};
  std::vector<double> row(static_cast<std::size_t>(b.columns));
  for (std::int64_t i = 0; i < a.rows; ++i) {
    check_stop();
    std::fill(row.begin(), row.end(), 0.0);
    for (std::int64_t k = 0; k < a.columns; ++k) {
      const double factor = a.values[static_cast<std::size_t>(i * a.columns + k)];
      const float* from = b.values.data() + k * b.columns;
      for (std::int64_t j = 0; j < b.columns; ++j) row[static_cast<std::size_t>(j)] += factor * from[j];
    }
    std::transform(row.begin(), row.end(), out.values.begin() + i * b.columns,
                   [](double value) { return static_cast<float>(value); });
  }
  return out;
}

Matrix transposed(const Matrix& a) {
  Matrix out{a.columns, a.rows, std::vector<float>(a.values.size())};
  io::transpose(a.values.data(), a.rows, a.columns, out.values.data());
  return out;
}

bool Chain::empty() const { return std::find(ranks.begin(), ranks.end(), 0) != ranks.end(); }

std::int64_t Chain::core_elements(std::size_t k) const {
  const std::int64_t gone = !gauge.empty() && k + 1 == cores.size() ? ranks[k] : 0;
  const std::int64_t width = table          ? left_modes[k] * right_modes[k]
                             : k < middle() ? left_modes[k]
                                            : right_modes[k - middle()] - gone;
  return ranks[k] * width * ranks[k + 1];
}

std::size_t Chain::middle() const { return table ? (cores.size() + 1) / 2 : left_modes.size(); }

std::vector<std::int32_t> gauge_columns(const Chain& chain) {
  std::vector<std::int32_t> columns(static_cast<std::size_t>(chain.columns), -1);
  for (std::size_t r = 0; r < chain.gauge.size(); ++r)
    columns[static_cast<std::size_t>(chain.gauge[r])] = static_cast<std::int32_t>(r);
  auto next = static_cast<std::int32_t>(chain.gauge.size());
  for (std::int32_t& column : columns)
    if (column < 0) column = next++;
  return columns;
}

std::vector<std::int32_t> chain_rows(const Chain& chain) {
  std::vector<std::int32_t> rows(chain.order.size());
  for (std::size_t p = 0; p < rows.size(); ++p)
    rows[static_cast<std::size_t>(chain.order[p])] = static_cast<std::int32_t>(p);
  return rows;
}

Factors factors_of(const Chain& chain) {
  Factors factors{merge_left(chain), merge_right(chain)};
  if (!chain.order.empty()) {
    const Matrix sorted = factors.left;
    const std::vector<std::int32_t> rows = chain_rows(chain);
    for (std::size_t i = 0; i < rows.size(); ++i)
      std::copy_n(sorted.values.begin() + rows[i] * sorted.columns, sorted.columns,
                  factors.left.values.begin() + static_cast<std::ptrdiff_t>(i) * sorted.columns);
  }
  if (!chain.gauge.empty()) factors.right = widen(factors.right, gauge_columns(chain));
  return factors;
}

TableHalves halves_of(const Chain& chain) {
  const std::size_t middle = chain.middle(), last = chain.cores.size();
  TableHalves halves;
  halves.rank = chain.ranks[middle];
  halves.left_rows = product(chain.left_modes, 0, middle);
  halves.left_columns = product(chain.right_modes, 0, middle);
  halves.right_rows = product(chain.left_modes, middle, last);
  halves.right_columns = product(chain.right_modes, middle, last);
  halves.left = as_matrix(merge_table(chain, 0, middle), halves.left_rows);
  // [R, rows, columns], stored below as [rows, R, columns]
  const std::vector<float> right = merge_table(chain, middle, last);
  halves.right = {halves.right_rows, halves.rank * halves.right_columns, std::vector<float>(right.size())};
  for (std::int64_t r = 0; r < halves.rank; ++r)
    for (std::int64_t i = 0; i < halves.right_rows; ++i)
      std::copy_n(right.begin() + (r * halves.right_rows + i) * halves.right_columns, halves.right_columns,
                  halves.right.values.begin() + (i * halves.rank + r) * halves.right_columns);
  return halves;
}

Matrix dense_table(const Chain& chain) {
  Matrix out{chain.rows, chain.columns, {}};
  out.values.reserve(static_cast<std::size_t>(out.rows * out.columns));
  const TableHalves halves = chain.empty() ? TableHalves{} : halves_of(chain);
  for (std::int64_t i = 0; i < chain.rows && !chain.empty(); ++i) {
    const Matrix row = multiply(row_of(halves.left, i / halves.right_rows, halves.left_columns),
                                row_of(halves.right, i % halves.right_rows, halves.rank));
    out.values.insert(out.values.end(), row.values.begin(), row.values.end());
  }
  out.values.resize(static_cast<std::size_t>(out.rows * out.columns));
  for (std::size_t e = 0; e < chain.exact_ids.size(); ++e)
    std::copy_n(chain.exact_rows.values.begin() + static_cast<std::ptrdiff_t>(e) * out.columns, out.columns,
                out.values.begin() + chain.exact_ids[e] * out.columns);
  return out;
}

WeightReader::WeightReader(const io::ModelFolder& folder) : folder_(folder) {
  if (auto block = io::parse_comera_block(folder.config(), folder.config_path())) block_ = std::move(*block);
  io::describe(folder);  // throws if a chain is incomplete
}

WeightReader::WeightReader(const io::ModelFolder& folder, const std::vector<io::ChainSpec>& planned)
    : WeightReader(folder) {
  block_.chains.insert(block_.chains.end(), planned.begin(), planned.end());
  shapes_alone_ = true;
}

std::vector<float> WeightReader::tensor(const std::string& name, const Sizes& shape) const {
  check_stop();
  return shapes_alone_ ? std::vector<float>() : folder_.read_floats(name, shape);
}

const io::ChainSpec* WeightReader::chain_spec(const std::string& name) const {
  for (const io::ChainSpec& spec : block_.chains)
    if (spec.name == name) return &spec;
  return nullptr;
}

Chain WeightReader::chain(const io::ChainSpec& spec) const {
  Chain chain;
  chain.name = spec.name;
  chain.table = spec.kind == io::ChainKind::ttm;
  chain.rows = chain.table ? spec.shape[0] : spec.in();
  chain.columns = chain.table ? spec.shape[1] : spec.out();
  const auto half = static_cast<std::ptrdiff_t>(chain.table ? spec.modes.size() / 2 : spec.middle());
  chain.left_modes.assign(spec.modes.begin(), spec.modes.begin() + half);
  chain.right_modes.assign(spec.modes.begin() + half, spec.modes.end());
  chain.ranks = spec.ranks;
  if (shapes_alone_) {
    chain.exact_ids.resize(static_cast<std::size_t>(spec.exact));
    chain.exact_rows = {spec.exact, chain.columns, {}};
    if (!spec.empty()) chain.cores.resize(spec.cores());
    chain.order.resize(spec.sorted ? static_cast<std::size_t>(chain.rows) : 0);
    chain.gauge.resize(spec.gauge ? static_cast<std::size_t>(spec.ranks[spec.middle()]) : 0);
    std::iota(chain.order.begin(), chain.order.end(), 0);
    std::iota(chain.gauge.begin(), chain.gauge.end(), 0);
    return chain;
  }
  io::ChainTensors tensors = io::read_chain(folder_, spec, block_.threshold);
  chain.cores = std::move(tensors.cores);
  chain.order = std::move(tensors.order);
  chain.gauge = std::move(tensors.gauge);
  chain.exact_ids = std::move(tensors.exact_ids);
  chain.exact_rows = {spec.exact, chain.columns, std::move(tensors.exact_rows)};
  return chain;
}

Matrix WeightReader::linear(const std::string& name, std::int64_t in, std::int64_t out) const {
  if (shapes_alone_) return {in, out, {}};
  const io::ChainSpec* spec = chain_spec(name);
  if (!spec) return transposed({out, in, folder_.read_floats(name + ".weight", {out, in})});
  const Chain chain = this->chain(*spec);
  if (chain.empty()) return {in, out, std::vector<float>(static_cast<std::size_t>(in * out))};
  const Factors factors = factors_of(chain);
  return multiply(factors.left, factors.right);
}

Matrix WeightReader::table(const std::string& name, std::int64_t rows, std::int64_t columns) const {
  if (shapes_alone_) return {rows, columns, {}};
  const io::ChainSpec* spec = chain_spec(name);
  if (!spec) return {rows, columns, folder_.read_floats(name + ".weight", {rows, columns})};
  return dense_table(chain(*spec));
}

}  // namespace comera::exporting
