#include "lib/quant/rounding.h"

#include <algorithm>

#include "lib/core/error.h"

namespace comera::quant {
namespace {

using tt::Matrix;

// Packs the groups of a matrix.
class Writer {
 public:
  Writer(Grid grid, std::int64_t lines, std::int64_t numbers) : result_{grid, lines, numbers} {
    result_.bytes.resize(static_cast<std::size_t>(lines * line_bytes(grid, numbers)));
  }
  // `codes`: of the group that begins with number `first` of the line.
  void put(std::int64_t line, std::int64_t first, Step step, std::span<const std::uint8_t> codes) {
    pack(result_.grid, step, codes, group_in(result_, line, first));
  }
  Quantised finish() { return std::move(result_); }

 private:
  Quantised result_;
};

// Number i of a line is value(line, i).
template <class Value>
Quantised round_lines(Grid grid, std::int64_t lines, std::int64_t numbers, const Value& value) {
  Writer writer(grid, lines, numbers);
  std::vector<double> values;
  std::vector<std::uint8_t> codes;
  for (std::int64_t line = 0; line < lines; ++line)
    for (std::int64_t first = 0; first < numbers; first += group_of(grid)) {
      values.clear();
      codes.clear();
      for (std::int64_t i = first; i < std::min(first + group_of(grid), numbers); ++i) values.push_back(value(line, i));
      const Step step = best_step(grid, values);
      for (const double one : values) codes.push_back(static_cast<std::uint8_t>(nearest(grid, step, one)));
      writer.put(line, first, step, codes);
    }
  return writer.finish();
}

}  // namespace

std::byte* group_in(Quantised& matrix, std::int64_t line, std::int64_t first) {
  // Groups before it are whole.
  return matrix.bytes.data() + line * line_bytes(matrix.grid, matrix.numbers) + line_bytes(matrix.grid, first);
}

Quantised round_linear(const Matrix& weight, Grid grid) {
  return round_lines(grid, weight.columns, weight.rows,
                     [&](std::int64_t line, std::int64_t i) { return weight(i, line); });
}

Quantised round_table(const Matrix& table, Grid grid) {
  return round_lines(grid, table.rows, table.columns,
                     [&](std::int64_t line, std::int64_t i) { return table(line, i); });
}

Matrix expand_linear(const Quantised& weight) {
  Matrix result(weight.numbers, weight.lines);
  std::vector<float> line(static_cast<std::size_t>(weight.numbers));
  const std::int64_t bytes = line_bytes(weight.grid, weight.numbers);
  for (std::int64_t o = 0; o < weight.lines; ++o) {
    decode_line(weight.grid, std::span(weight.bytes).subspan(static_cast<std::size_t>(o * bytes)), line);
    for (std::int64_t i = 0; i < weight.numbers; ++i) result(i, o) = line[static_cast<std::size_t>(i)];
  }
  return result;
}

Quantised lines_of(const Quantised& all, std::int64_t first, std::int64_t count) {
  const std::int64_t bytes = line_bytes(all.grid, all.numbers);
  const auto begin = all.bytes.begin() + first * bytes;
  return {all.grid, count, all.numbers, {begin, begin + count * bytes}};
}

Matrix expand_table(const Quantised& table) {
  Matrix result(table.lines, table.numbers);
  std::vector<float> line(static_cast<std::size_t>(table.numbers));
  const std::int64_t bytes = line_bytes(table.grid, table.numbers);
  for (std::int64_t r = 0; r < table.lines; ++r) {
    decode_line(table.grid, std::span(table.bytes).subspan(static_cast<std::size_t>(r * bytes)), line);
    std::copy(line.begin(), line.end(), result.row(r));
  }
  return result;
}

}  // namespace comera::quant
