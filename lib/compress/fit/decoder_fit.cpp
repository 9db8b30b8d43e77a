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

// The same rows of the table on a grid.
Matrix part_of(const Matrix& table, const quant::Quantised& fitted, std::int64_t part) {
  const std::int64_t first = part * rows_at_once, count = std::min(rows_at_once, table.rows - first);
  return tt::transposed(quant::expand_table(quant::lines_of(fitted, first, count)));
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

tt::OutputErrors errors_of_outputs(const Candidate& candidate, const Matrix& weight, Matrix fitted,
                                   const KeptMatrix& moment) {
  if (!candidate.decodes) {
    tt::subtract_from(weight, fitted);
    return tt::errors_of_outputs(weight, fitted, moment);
  }
  tt::LostOutputs lost(weight.columns);
  for (std::int64_t p = 0; p < parts_of(weight); ++p) lost.add(tt::difference(part_of(weight, p), part_of(fitted, p)));
  return lost.relative_to(output_norm(candidate, weight, moment), moment);
}

double decoder_loss(const Matrix& table, const quant::Quantised& fitted, const KeptMatrix& moment) {
  return sum_of(table,
                [&](std::int64_t p) { return tt::output_loss(part_of(table, p), part_of(table, fitted, p), moment); });
}

tt::OutputErrors decoder_errors(const Candidate& candidate, const Matrix& table, const quant::Quantised& fitted,
                                const KeptMatrix& moment) {
  tt::LostOutputs lost(table.columns);
  for (std::int64_t p = 0; p < parts_of(table); ++p)
    lost.add(tt::difference(part_of(table, p), part_of(table, fitted, p)));
  return lost.relative_to(output_norm(candidate, table, moment), moment);
}

}  // namespace comera::compress
