// Codes are integers and a slope is one product, so every backend must give the bytes of the reference in f32.
#include "kernels/slope_codes.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "tests/kernels/harness/call.h"
#include "tests/kernels/harness/placed.h"

namespace comera::kernels::test {
namespace {

using Floats = std::vector<float>;
using Bytes = std::vector<std::uint8_t>;

constexpr SlopeTable some_table = {{-0.5f, smallest_cut, 0.625f}, {-0.046875f, 0.3125f, 0.6875f, 1.1f}};
constexpr float infinity = std::numeric_limits<float>::infinity();

struct Shape {
  std::int64_t rows, columns;
};
// Rows of whole bytes, of parts of a byte, of parts of a vector, and none.
const std::vector<Shape> shapes = {{1, 1},  {3, 2},  {5, 3},     {4, 4},    {7, 5}, {2, 16},
                                   {3, 23}, {6, 64}, {13, 1001}, {5, 3072}, {0, 8}};

// Normal numbers, the cuts themselves and their neighbours, both zeros, subnormal numbers, infinities and NaN.
Floats arguments(const Shape& shape) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  Floats special = {0, -0.0f, infinity, -infinity, NAN, 1e-40f, -1e-40f};
  for (const float cut : some_table.cut)
    for (const float towards : {-infinity, cut, infinity}) special.push_back(std::nextafter(cut, towards));
  Floats x(static_cast<std::size_t>(shape.rows * shape.columns));
  for (float& value : x) value = random() % 3 == 0 ? special[random() % special.size()] : normal(random);
  return x;
}

struct Result {
  Bytes codes;
  std::vector<std::uint32_t> dx;  // bits, since some are NaN
};

std::vector<std::uint32_t> bits_of(const Floats& values) {
  std::vector<std::uint32_t> bits(values.size());
  if (!values.empty()) std::memcpy(bits.data(), values.data(), values.size() * sizeof(float));
  return bits;
}

Result result_by(const Column& column, const Shape& shape, const Floats& values, const Floats& gradient,
                 bool in_place) {
  const Placed<float> x(column, values), dy(column, gradient), dx(column, Floats(values.size(), NAN));
  const Placed<std::uint8_t> codes(column,
                                   Bytes(static_cast<std::size_t>(shape.rows * slope_row_bytes(shape.columns)), 0xEE));
  const Context context = context_of(column);
  const SlopeEncode encode{shape.rows, shape.columns, some_table, x.data(), codes.data()};
  REQUIRE(column.backend->slope_encode.run(context, encode) == Status::ok);
  const Placed<float>& to = in_place ? dy : dx;
  const SlopeApply apply{shape.rows, shape.columns, some_table, codes.data(), dy.data(), to.data()};
  REQUIRE(column.backend->slope_apply.run(context, apply) == Status::ok);
  return {codes.read(), bits_of(to.read())};
}

const Column plain{"reference f32", &reference_backend(), nullptr, {}};

}  // namespace

TEST_CASE("slope_codes: four codes per byte, the first column in the lowest bits, zeros behind the last one") {
  // Above no cut, one, two and three; a cut itself is not above.
  const Floats x = {-1, -0.5f, -0.25f, 0.1f, 3, NAN, 0, 0.625f, 0.7f, -3}, dy = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  for (const Column& column : columns()) {
    CAPTURE(column.name);
    const Result found = result_by(column, {2, 5}, x, dy, false);
    const Bytes codes = {0b10'01'00'00, 0b11, 0b11'10'01'00, 0b00};
    CHECK(found.codes == codes);
    const float* s = some_table.slope;
    CHECK(found.dx == bits_of({1 * s[0], 2 * s[0], 3 * s[1], 4 * s[2], 5 * s[3], 6 * s[0], 7 * s[1], 8 * s[2], 9 * s[3],
                               10 * s[0]}));
  }
}

TEST_CASE("slope_codes: every backend gives the bytes of the reference") {
  for (const Column& column : columns())
    for (const Shape& shape : shapes)
      for (const bool in_place : {false, true}) {
        CAPTURE(column.name, shape.rows, shape.columns, in_place);
        const Floats x = arguments(shape);
        Floats dy(x.size());
        for (std::size_t i = 0; i < dy.size(); ++i) dy[i] = std::sin(static_cast<float>(i));
        const Result wanted = result_by(plain, shape, x, dy, false);
        for (std::size_t variation = 0; variation <= column.variations.size(); ++variation) {
          if (variation > 0) column.variations[variation - 1]();
          const Result found = result_by(column, shape, x, dy, in_place);
          CHECK(found.codes == wanted.codes);
          CHECK(found.dx == wanted.dx);
        }
      }
}

// The numbers are exact in bf16, so the codes are those of f32, and the products are rounded once.
TEST_CASE("slope_codes: bf16") {
  for (const std::int64_t columns : {5, 24}) {
    const std::int64_t rows = 9, bytes = rows * slope_row_bytes(columns);
    const auto found = [&](DType dtype) {
      cuda::Call call(dtype);
      // The memory of the codes, as whole words.
      auto* const codes = static_cast<std::uint8_t*>(call.f32(Floats(static_cast<std::size_t>(bytes))));
      void* const dy = call.activations(cuda::numbers(rows * columns, 2));
      call.run(cuda::backend().slope_encode,
               SlopeEncode{rows, columns, some_table, call.activations(cuda::numbers(rows * columns, 1)), codes});
      call.run(cuda::backend().slope_apply, SlopeApply{rows, columns, some_table, codes, dy, dy});
      return call.read_activations(dy, static_cast<std::size_t>(rows * columns));
    };
    cuda::on_bf16_backends([&] { CHECK(found(DType::bf16) == cuda::rounded(found(DType::f32))); });
  }
}

}  // namespace comera::kernels::test
