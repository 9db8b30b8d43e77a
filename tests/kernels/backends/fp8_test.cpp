// Tests of fp8: the arithmetic against a list of all values of each type, and the tall products of a TT layer.
#include "kernels/cuda/common/fp8.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "kernels/tt_linear.h"
#include "tests/kernels/harness/bounds.h"
#include "tests/kernels/harness/call.h"

namespace comera::kernels::cuda {
namespace {

template <class Type>
double largest_of() {
  return 1.75 * std::ldexp(1.0, Type::top);
}

// All magnitudes of the type in increasing order; the index is the code.
template <class Type>
std::vector<double> magnitudes() {
  std::vector<double> all;
  for (int code = 0; code < 128 && (code == 0 || all.back() < largest_of<Type>()); ++code) {
    const int exponent = code >> Type::fraction, units = 1 << Type::fraction;
    const double fraction = static_cast<double>(code % units) / units;
    all.push_back(exponent == 0 ? std::ldexp(fraction, 1 - Type::bias)
                                : std::ldexp(1 + fraction, exponent - Type::bias));
  }
  return all;
}

template <class Type>
void check_codes() {
  const std::vector<double> all = magnitudes<Type>();
  REQUIRE(all.back() == largest_of<Type>());
  for (std::size_t code = 0; code < all.size(); ++code) {
    CHECK(from_fp8<Type>(static_cast<std::uint8_t>(code)) == all[code]);
    CHECK(to_fp8<Type>(static_cast<float>(all[code])) == code);
    CHECK(to_fp8<Type>(-static_cast<float>(all[code])) == (code | 0x80));
    if (code == 0) continue;
    const float middle = static_cast<float>((all[code - 1] + all[code]) / 2);
    CHECK(to_fp8<Type>(middle) == (code % 2 == 0 ? code : code - 1));  // ties to even
    CHECK(to_fp8<Type>(std::nextafter(middle, 0.0f)) == code - 1);
    CHECK(to_fp8<Type>(std::nextafter(middle, 1e9f)) == code);
  }
  CHECK(to_fp8<Type>(1e30f) == all.size() - 1);
  CHECK(to_fp8<Type>(-INFINITY) == ((all.size() - 1) | 0x80));
  CHECK(std::isnan(from_fp8<Type>(to_fp8<Type>(NAN))));
  CHECK(from_fp8<Type>(to_fp8<Type>(1e-30f)) == 0);
}

template <class Type>
void check_scale() {
  for (float largest : {1.0f, 1.75f, std::nextafter(1.75f, 2.0f), 3.9f, 448.0f, 449.0f, 1e-20f, 3e-3f, 6e4f, 1e20f}) {
    const double scaled = static_cast<double>(largest) * fp8_scale<Type>(bits_of(largest));
    CHECK(scaled <= largest_of<Type>());
    CHECK(2 * scaled > largest_of<Type>());
  }
  for (float nothing : {0.0f, INFINITY, NAN}) CHECK(fp8_scale<Type>(bits_of(nothing)) == 1);
  const float small = 1e-42f;  // out of reach of the scale: stays small, never becomes infinite
  CHECK(std::isfinite(small * fp8_scale<Type>(bits_of(small))));
}

// A factor for the error bound of a product: each value has a relative error of u and an absolute error of half the
// smallest number of the type.
struct Factor {
  const Floats& values;
  double unit, floor;
  bool transposed = false;
  double at(std::int64_t i) const { return std::abs(static_cast<double>(values[static_cast<std::size_t>(i)])); }
};
template <class Type>
Factor factor(const Floats& values, bool transposed = false) {
  double largest = 0;
  for (float x : values) largest = std::max(largest, std::abs(static_cast<double>(x)));
  return {values, std::ldexp(1.0, -Type::fraction - 1),
          std::ldexp(1.0, -Type::bias - Type::fraction) * 2 * largest / largest_of<Type>(), transposed};
}

// Bounds of a [m, k] b [k, n] (or b stored [n, k]). `off` is the error that each element of a already has.
std::vector<double> bounds(const Factor& a, const Factor& b, std::int64_t m, std::int64_t n, std::int64_t k,
                           const std::vector<double>& off = {}) {
  std::vector<double> bound(static_cast<std::size_t>(m * n));
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = 0, size = 0;
      for (std::int64_t l = 0; l < k; ++l) {
        const double x = a.at(i * k + l), y = b.at(b.transposed ? j * k + l : l * n + j),
                     before = off.empty() ? 0 : off[i * k + l];
        const double dx = a.unit * (x + before) + a.floor + before, dy = b.unit * y + b.floor;
        sum += dx * y + (x + dx) * dy;
        size += (x + dx) * (y + dy);
      }
      bound[static_cast<std::size_t>(i * n + j)] = sum + 0x1p-8 * size;  // rounded to bf16 at the end
    }
  return bound;
}

void check_within(const Floats& found, const Floats& exact, const std::vector<double>& bound) {
  REQUIRE(found.size() == exact.size());
  test::Bounds bounds;
  for (std::size_t i = 0; i < found.size(); ++i)
    bounds.add(std::abs(static_cast<double>(found[i]) - exact[i]), bound[i]);
  CHECK(bounds.hold("fp8", place().name, "the tall products of a TT layer"));
  CHECK(bounds.largest() > 1e-3);  // the bound is not trivially large
}

constexpr std::int64_t tokens = 40, in = 48, rank = 16;

struct Layer {
  std::int64_t out;
  Floats x = numbers(tokens * in, 1), left = numbers(in * rank, 2), right = numbers(rank * out, 3),
         dy = numbers(tokens * out, 4);

  TtOutput output(Call& call) const {
    TtOutput o;
    o.out = o.ldy = out, o.rank = rank, o.right = call.activations(right);
    return o;
  }
  // Returns T1 and y.
  std::pair<Floats, Floats> forward(Call& call) const {
    TtLinearForward a;
    a.tokens = tokens, a.in = a.ldx = in, a.width = rank, a.outputs = 1;
    a.x = call.activations(x), a.left = call.activations(left), a.t1 = call.activations(Floats(tokens * rank));
    a.output[0] = output(call), a.output[0].y = call.activations(Floats(static_cast<std::size_t>(tokens * out)));
    call.run(backend().tt_linear_forward, a);
    return {call.read_activations(a.t1, tokens * rank),
            call.read_activations(a.output[0].y, static_cast<std::size_t>(tokens * out))};
  }
  // Returns U1 and dx.
  std::pair<Floats, Floats> backward(Call& call) const {
    TtLinearBackward a;
    a.tokens = tokens, a.in = a.lddx = in, a.width = rank, a.outputs = 1;
    a.t1 = call.activations(numbers(tokens * rank, 5)), a.left = call.activations(left);
    a.u1 = call.activations(Floats(tokens * rank)), a.dx = call.activations(Floats(tokens * in));
    a.output[0] = output(call), a.output[0].dy = call.activations(dy);
    a.output[0].d_right = call.f32(Floats(static_cast<std::size_t>(rank * out)));
    call.run(backend().tt_linear_backward, a);
    return {call.read_activations(a.u1, tokens * rank), call.read_activations(a.dx, tokens * in)};
  }
};

}  // namespace

TEST_CASE("fp8: all codes and the values between them, e4m3") { check_codes<E4m3>(); }
TEST_CASE("fp8: all codes and the values between them, e5m2") { check_codes<E5m2>(); }
TEST_CASE("fp8: the scale maps the largest number close to the largest of the type") {
  check_scale<E4m3>();
  check_scale<E5m2>();
}

TEST_CASE("fp8, every CUDA backend: the tall products of a TT layer, within the roundings of their factors") {
  on_devices([&] {
    const Layer layer{32};
    Call exact(DType::f32), eight(DType::bf16, true), again(DType::bf16, true);
    const auto [t1, y] = layer.forward(eight);
    const auto [t1_exact, y_exact] = layer.forward(exact);
    const std::vector<double> of_t1 = bounds(factor<E4m3>(layer.x), factor<E4m3>(layer.left), tokens, rank, in);
    check_within(t1, t1_exact, of_t1);
    check_within(y, y_exact, bounds(factor<E4m3>(t1_exact), factor<E4m3>(layer.right), tokens, layer.out, rank, of_t1));
    const auto [u1, dx] = layer.backward(eight);
    const auto [u1_exact, dx_exact] = layer.backward(exact);
    const std::vector<double> of_u1 =
        bounds(factor<E5m2>(layer.dy), factor<E4m3>(layer.right, true), tokens, rank, layer.out);
    check_within(u1, u1_exact, of_u1);
    check_within(dx, dx_exact, bounds(factor<E5m2>(u1_exact), factor<E4m3>(layer.left, true), tokens, in, rank, of_u1));
    CHECK(layer.forward(again) == std::pair(t1, y));
    CHECK(layer.backward(again) == std::pair(u1, dx));
  });
}

TEST_CASE("fp8, every CUDA backend: a product whose sizes are not multiples of 16 is computed in bf16") {
  on_devices([&] {
    const Layer layer{24};
    Call eight(DType::bf16, true), bf16(DType::bf16);
    CHECK(layer.backward(eight).first == layer.backward(bf16).first);  // U1, summed over 24
    CHECK(layer.backward(eight).second != layer.backward(bf16).second);
  });
}

TEST_CASE("fp8 on CUDA: a product without support in the library is computed in bf16") {
  const Layer layer{32};
  const auto t1_of_one_token = [&](Call& call) {
    TtLinearForward a;
    a.tokens = 1, a.in = a.ldx = in, a.width = rank, a.outputs = 1, a.path = Path::library;
    a.x = call.activations(Floats(layer.x.begin(), layer.x.begin() + in)), a.left = call.activations(layer.left),
    a.t1 = call.activations(Floats(rank));
    a.output[0] = layer.output(call), a.output[0].y = call.activations(Floats(32));
    call.run(backend().tt_linear_forward, a);
    return call.read_activations(a.t1, rank);
  };
  Call eight(DType::bf16, true), bf16(DType::bf16);
  CHECK(t1_of_one_token(eight) == t1_of_one_token(bf16));
}

TEST_CASE("fp8, every CUDA backend: NaN in the input gives NaN in the output") {
  on_devices([&] {
    Layer layer{32};
    layer.x[5] = NAN;
    Call eight(DType::bf16, true);
    CHECK(std::isnan(layer.forward(eight).second[0]));
  });
}

}  // namespace comera::kernels::cuda
