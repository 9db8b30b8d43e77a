#include "lib/compress/fit/decoder_fit.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

#include "lib/tt/data_aware.h"

namespace comera::compress {
namespace {

using tt::KeptMatrix;
using tt::Matrix;

constexpr std::int64_t rows_at_once = 1024;

std::int64_t parts_of(const Matrix& table) { return (table.rows + rows_at_once - 1) / rows_at_once; }

// Rows of the table as a linear weight [columns x rows].
Matrix part_of(const Matrix& table, std::int64_t part) {
  const std::int64_t first = part * rows_at_once, count = std::min(rows_at_once, table.rows - first);
  Matrix weight(table.columns, count);
  for (std::int64_t r = 0; r < count; ++r)
    for (std::int64_t c = 0; c < table.columns; ++c) weight(c, r) = table(first + r, c);
  return weight;
}

// The sum over the parts, in their order.
double sum_of(const Matrix& table, const std::function<double(std::int64_t part)>& of_part) {
  std::vector<double> parts(static_cast<std::size_t>(parts_of(table)));
  tt::each_alone(std::ssize(parts), [&](std::int64_t p) { parts[static_cast<std::size_t>(p)] = of_part(p); });
  return std::accumulate(parts.begin(), parts.end(), 0.0);
}

}  // namespace

quant::Quantised fit_decoder(const Matrix& table, const quant::LinearFit& inputs, quant::Grid grid) {
  quant::Quantised all{grid, table.rows, table.columns, {}};
  const auto line = static_cast<std::size_t>(quant::line_bytes(grid, table.columns));
  all.bytes.resize(static_cast<std::size_t>(table.rows) * line);
  tt::each_alone(parts_of(table), [&](std::int64_t p) {
    const quant::Quantised part = inputs.fit(part_of(table, p), grid);
    std::copy(part.bytes.begin(), part.bytes.end(),
              all.bytes.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(p * rows_at_once) * line));
  });
  return all;
}

double output_norm(const Candidate& candidate, const Matrix& weight, const KeptMatrix& moment) {
  if (!candidate.decodes) return tt::output_norm(weight, moment);
  return sum_of(weight, [&](std::int64_t p) { return tt::output_norm(part_of(weight, p), moment); });
}

double output_loss(const Candidate& candidate, const Matrix& weight, Matrix fitted, const KeptMatrix& moment) {
  if (!candidate.decodes) return tt::output_loss(weight, std::move(fitted), moment);
  return sum_of(weight,
                [&](std::int64_t p) { return tt::output_loss(part_of(weight, p), part_of(fitted, p), moment); });
}

double output_error(const Candidate& candidate, const Matrix& weight, Matrix fitted, const KeptMatrix& moment) {
  if (!candidate.decodes) return tt::output_error(weight, std::move(fitted), moment);
  const double norm = output_norm(candidate, weight, moment);
  return norm > 0 ? std::sqrt(std::max(output_loss(candidate, weight, std::move(fitted), moment), 0.0) / norm) : 0;
}

double decoder_loss(const Matrix& table, const quant::Quantised& fitted, const KeptMatrix& moment) {
  return sum_of(table, [&](std::int64_t p) {
    const Matrix part = part_of(table, p);
    const quant::Quantised lines = quant::lines_of(fitted, p * rows_at_once, part.columns);
    return tt::output_loss(part, tt::transposed(quant::expand_table(lines)), moment);
  });
}

}  // namespace comera::compress
