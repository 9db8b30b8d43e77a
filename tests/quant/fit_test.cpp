#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>

#include "lib/core/half.h"
#include "lib/core/terminal/log.h"
#include "lib/quant/corrected.h"
#include "tests/oracle/gptq.h"
#include "tests/tt/random_matrix.h"

using namespace comera;
using namespace comera::quant;
using test::random_matrix;
using tt::Matrix;

namespace {

// Sums of x xᵀ of inputs with strong correlations.
Matrix moment_of(std::int64_t in, unsigned seed) {
  const Matrix mixed = tt::multiply(random_matrix(400, 12, seed), random_matrix(12, in, 7));
  Matrix inputs = random_matrix(400, in, seed + 1);
  for (std::size_t i = 0; i < inputs.values.size(); ++i) inputs.values[i] = 0.3 * inputs.values[i] + mixed.values[i];
  return tt::gram(inputs);
}

// tr((W - Q)ᵀ H (W - Q)) with H = S + 0.01 mean(diag S) I.
double damped_loss(const Matrix& weight, const Quantised& fitted, const Matrix& moment) {
  Matrix h = moment;
  for (std::int64_t i = 0; i < h.rows; ++i) h(i, i) += 0.01 * tt::trace(moment) / static_cast<double>(h.rows);
  return tt::output_loss(weight, expand_linear(fitted), h);
}

const RoundFactors unrounded = [](tt::Pair&) {};

// The numbers of tests/oracle/gptq.py: whole, from -2048 to 2047.
Matrix drawn(std::int64_t rows, std::int64_t columns, std::uint32_t seed) {
  Matrix a(rows, columns);
  for (double& value : a.values) {
    seed = 1664525U * seed + 1013904223U;
    value = static_cast<double>(seed >> 20U) - 2048;
  }
  return a;
}

// The layer of tests/oracle/gptq.py: weight [64 x 48] and moment of 160 inputs.
struct Layer {
  Matrix weight = drawn(64, 48, 1), moment;
  Layer() {
    const Matrix other = drawn(64, 48, 2), shared = drawn(160, 8, 3);
    for (std::size_t i = 0; i < weight.values.size(); ++i) weight.values[i] *= other.values[i] / (1 << 22);
    Matrix inputs = drawn(160, 64, 4);
    for (std::int64_t t = 0; t < inputs.rows; ++t)
      for (std::int64_t i = 0; i < inputs.columns; ++i) inputs(t, i) += 3 * shared(t, i % 8);
    moment = tt::gram(inputs);
  }
};

// `count` numbers of a group as tests/oracle/gptq.h has them.
std::string digits_of(const Group& group, std::int64_t count) {
  std::string digits = fmt::format("{:04x}{:04x}", float_to_half(group.step.scale), float_to_half(group.step.least));
  for (const int code : std::span(group.codes).first(static_cast<std::size_t>(count)))
    digits += fmt::format("{:02x}", code);
  return digits;
}

void check_groups(Grid grid, std::span<const char* const> expected) {
  INFO(name_of(grid));
  const Layer layer;
  const Corrected fitted =
      fit_corrected(layer.weight, {layer.moment, layer.moment}, grid, 0, unrounded, {.sweeps = 0, .damping = 0.01});
  const std::int64_t count = std::min(group_of(grid), layer.weight.rows);
  REQUIRE(std::ssize(fitted.base.bytes) == std::ssize(expected) * line_bytes(grid, count));
  const std::byte* bytes = fitted.base.bytes.data();
  for (const char* const group : expected) {
    CHECK(digits_of(read_group(grid, bytes, count), count) == group);
    bytes += line_bytes(grid, count);
  }
}

}  // namespace

TEST_CASE("quantised: GPTQ without a correction has the codes and steps of the published formulas") {
  check_groups(Grid::q8_0, oracle::gptq_q8_0);
  check_groups(Grid::q4_1, oracle::gptq_q4_1);
  check_groups(Grid::q4_0, oracle::gptq_q4_0);
  check_groups(Grid::q3_0, oracle::gptq_q3_0);
  check_groups(Grid::q2_0, oracle::gptq_q2_0);
  check_groups(Grid::q3_0g64, oracle::gptq_q3_0g64);
  check_groups(Grid::q2_0g128, oracle::gptq_q2_0g128);
}

TEST_CASE("quantised: rounding moves no number farther than half a step of its group") {
  const Matrix weight = random_matrix(70, 9, 1);  // of 32, 32 and 6 numbers, of 64 and 6, or of 70
  for (const Grid grid : all_grids) {
    INFO(name_of(grid));
    const Matrix linear = expand_linear(round_linear(weight, grid)), table = expand_table(round_table(weight, grid));
    REQUIRE(linear.rows == 70);
    REQUIRE(table.columns == 9);
    CHECK(tt::squared_norm(tt::difference(weight, linear)) < 0.2 * tt::squared_norm(weight));
    CHECK(tt::squared_norm(tt::difference(weight, table)) < 0.2 * tt::squared_norm(weight));
  }
  const Matrix fine = expand_linear(round_linear(weight, Grid::q8_0));
  for (std::size_t i = 0; i < fine.values.size(); ++i) CHECK(std::abs(fine.values[i] - weight.values[i]) < 0.02);
}

TEST_CASE("quantised: what lies on the grid is kept bit for bit") {
  const Matrix moment = moment_of(64, 3);
  for (const Grid grid : all_grids) {
    if (grid == Grid::q4_1) continue;
    INFO(name_of(grid));
    // Levels of a power of two, the outermost codes in every group.
    Matrix weight(64, 5);
    for (std::int64_t i = 0; i < 64; ++i)
      for (std::int64_t o = 0; o < 5; ++o)
        weight(i, o) = level(grid, {0.25f, 0}, static_cast<int>((i * 5 + o * 3) % codes_of(grid)));
    for (std::int64_t o = 0; o < 5; ++o) weight(0, o) = weight(32, o) = level(grid, {0.25f, 0}, 0);
    CHECK(expand_linear(fit_linear(weight, moment, grid)).values == weight.values);
  }
}

TEST_CASE("quantised: GPTQ loses less than rounding, and a sweep never more than before it") {
  const Matrix weight = random_matrix(150, 40, 5), moment = moment_of(150, 11);
  for (const Grid grid : all_grids) {
    if (grid == Grid::q8_0) continue;
    INFO(name_of(grid));
    const double rounded = damped_loss(weight, round_linear(weight, grid), moment);
    double before = damped_loss(weight, fit_linear(weight, moment, grid, {0}), moment);
    CHECK(before < 0.7 * rounded);
    for (const int sweeps : {1, 2, 8}) {
      const double after = damped_loss(weight, fit_linear(weight, moment, grid, {sweeps}), moment);
      CHECK(after <= before * (1 + 1e-9));
      before = after;
    }
  }
}

TEST_CASE("quantised: inputs that are always zero do no harm") {
  Matrix moment = moment_of(64, 2);
  for (std::int64_t i = 0; i < 64; ++i) moment(i, 40) = moment(40, i) = 0;
  const Matrix weight = random_matrix(64, 8, 3);
  const double error = tt::output_error(weight, expand_linear(fit_linear(weight, moment, Grid::q4_0)), moment);
  CHECK(error < 0.2);
  const Matrix none(64, 64);
  const Matrix fitted = expand_linear(fit_linear(weight, none, Grid::q4_0));
  CHECK(tt::squared_norm(tt::difference(weight, fitted)) < 0.1 * tt::squared_norm(weight));
}

TEST_CASE("quantised: a correction of rank k loses less, and all of the rank loses nothing") {
  const Matrix weight = random_matrix(64, 48, 8), fit = moment_of(64, 21), held = moment_of(64, 22);
  double before = 1e300;
  for (const std::int64_t rank : {0, 4, 16, 48}) {
    const Corrected corrected = fit_corrected(weight, {fit, held}, Grid::q2_0, rank, unrounded);
    CHECK(corrected.correction.left.columns == rank);
    const double loss = tt::output_loss(weight, expand(corrected), held);
    CHECK(loss < before);
    before = loss;
  }
  CHECK(before < 1e-12 * tt::output_norm(weight, held));
}
