// Every function of kernels/cpu/common/simd.h against the C library in double, over floats of every size and sign, with
// errors in units in the last place.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "tests/kernels/simd/probe.h"

namespace comera::kernels {
namespace {

using Apply = void (*)(SimdFunction, const float*, float*, std::int64_t);
using Sums = void (*)(const float*, std::int64_t, float*, float*, double*);
struct Isa {
  const char* name;
  Apply apply;
  Sums sums;
};

std::vector<Isa> machine() {
  std::vector<Isa> list;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    list.push_back({"v3", cpu_v3::simd_apply, cpu_v3::simd_sums});
  if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq"))
    list.push_back({"v4", cpu_v4::simd_apply, cpu_v4::simd_sums});
  return list;
}

double phi(double x) { return std::exp(-0.5 * x * x) * 0.39894228040143267794; }
double below(double x) { return 0.5 * std::erfc(-x * 0.70710678118654752440); }
double logistic(double x) { return 1 / (1 + std::exp(-x)); }

struct Truth {
  double value, scale;  // the error is in units in the last place of `scale`
};
Truth same(double v) { return {v, v}; }

// gelu_tanh(x) = x s(z) with z = x (a + b x^2). A relative error of z is |z| s(-z) times as large in s(z), and |z|
// times in s(z) s(-z).
constexpr double gelu_a = 1.5957691216057308, gelu_b = 0.044715 * gelu_a;
Truth gelu_tanh(double x) {
  const double z = x * (gelu_a + gelu_b * x * x), s = logistic(z);
  return {x * s, std::fabs(x) * s * (1 + std::fabs(z) * logistic(-z))};
}
Truth gelu_tanh_derivative(double x) {
  const double z = x * (gelu_a + gelu_b * x * x), s = logistic(z), rest = logistic(-z);
  const double second = x * s * rest * (gelu_a + 3 * gelu_b * x * x);
  return {s + second, s * (1 + std::fabs(z) * rest) + std::fabs(second) * (1 + std::fabs(z))};
}

Truth truth(SimdFunction f, double x) {
  const double s = logistic(x), e = std::exp(-2 * std::fabs(x));
  switch (f) {
    case SimdFunction::exp: return same(std::exp(x));
    case SimdFunction::erf: return same(std::erf(x));
    case SimdFunction::tanh: return same(std::tanh(x));
    case SimdFunction::sigmoid: return same(s);
    case SimdFunction::complement: return same(logistic(-x));
    case SimdFunction::below: return same(below(x));
    case SimdFunction::gelu: return same(x * below(x));
    case SimdFunction::gelu_derivative: return {below(x) + x * phi(x), below(x) + std::fabs(x * phi(x))};
    case SimdFunction::silu: return same(x * s);
    case SimdFunction::silu_derivative: return {s + x * s * logistic(-x), s + std::fabs(x) * s * logistic(-x)};
    case SimdFunction::tanh_derivative: return same(4 * e / ((1 + e) * (1 + e)));
    case SimdFunction::gelu_tanh: return gelu_tanh(x);
    case SimdFunction::gelu_tanh_derivative: return gelu_tanh_derivative(x);
  }
  return same(0);
}

// Below 128 times the smallest normal number, the unit is that of this limit, because x times a subnormal is not more
// accurate.
double ulp(double v) {
  const double smallest = 128.0 * std::numeric_limits<float>::min();
  return std::ldexp(1.0, std::ilogb(std::max(std::fabs(v), smallest)) - 23);
}

// Every 4093rd float with |x| <= limit.
std::vector<float> floats(float limit) {
  std::vector<float> x;
  for (std::uint64_t bits = 0; bits < (1ull << 32); bits += 4093) {
    const auto word = static_cast<std::uint32_t>(bits);
    float v;
    std::memcpy(&v, &word, 4);
    if (std::fabs(v) <= limit) x.push_back(v);
  }
  return x;
}

double worst(const Isa& isa, SimdFunction f, float limit) {
  const std::vector<float> x = floats(limit);
  std::vector<float> y(x.size());
  isa.apply(f, x.data(), y.data(), static_cast<std::int64_t>(x.size()));
  double largest = 0;
  std::size_t at = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const Truth t = truth(f, x[i]);
    if (std::fabs(t.value) > std::numeric_limits<float>::max()) {
      if (y[i] != std::copysign(std::numeric_limits<float>::infinity(), t.value)) return HUGE_VAL;
      continue;
    }
    const double error = std::fabs(y[i] - t.value) / ulp(t.scale);
    if (!(error <= largest)) {
      largest = error;
      at = i;
    }
  }
  UNSCOPED_INFO("worst at x = " << x[at] << ": " << y[at] << ", wanted " << truth(f, x[at]).value);
  return largest;
}

// The error bounds stated in simd.h, in units in the last place.
struct Promise {
  SimdFunction f;
  const char* name;
  float limit;
  double ulps;
};
constexpr Promise promises[] = {
    {SimdFunction::exp, "exp", 3e38f, 1},
    {SimdFunction::erf, "erf", 3e38f, 1.5},
    {SimdFunction::tanh, "tanh", 3e38f, 2.5},
    {SimdFunction::sigmoid, "sigmoid", 3e38f, 2.5},
    {SimdFunction::complement, "complement", 3e38f, 2.5},
    {SimdFunction::below, "below", 3e38f, 6},
    {SimdFunction::gelu, "gelu", 1e19f, 6.5},
    {SimdFunction::gelu_derivative, "gelu_derivative", 1e19f, 6},
    {SimdFunction::silu, "silu", 3e38f, 3.5},
    {SimdFunction::silu_derivative, "silu_derivative", 1e30f, 5},
    {SimdFunction::tanh_derivative, "tanh_derivative", 3e38f, 4},
    {SimdFunction::gelu_tanh, "gelu_tanh", 1e12f, 4},
    {SimdFunction::gelu_tanh_derivative, "gelu_tanh_derivative", 1e12f, 5},
};

}  // namespace

TEST_CASE("SIMD functions stay within their documented error") {
  const std::vector<Isa> list = machine();
  if (list.empty()) WARN("no AVX2 on this machine: nothing tested");
  for (const Isa& isa : list)
    for (const Promise& p : promises) {
      INFO(isa.name << " " << p.name);
      CHECK(worst(isa, p.f, p.limit) <= p.ulps);
    }
}

TEST_CASE("SIMD functions propagate NaN, and tails equal full vectors") {
  for (const Isa& isa : machine())
    for (const Promise& p : promises) {
      INFO(isa.name << " " << p.name);
      std::vector<float> x(64, 0.75f), whole(64);
      x[3] = std::numeric_limits<float>::quiet_NaN();
      for (int i = 20; i < 64; ++i) x[i] = 0.37f * static_cast<float>(i - 40);
      isa.apply(p.f, x.data(), whole.data(), 64);
      CHECK(std::isnan(whole[3]));
      for (int first = 0; first < 40; ++first) {
        const int count = first % 23;
        std::vector<float> part(64, -9.0f);
        isa.apply(p.f, x.data() + first, part.data(), count);
        CHECK(std::memcmp(part.data(), whole.data() + first, 4 * static_cast<std::size_t>(count)) == 0);
        CHECK(part[static_cast<std::size_t>(count)] == -9.0f);
      }
    }
}

TEST_CASE("SIMD reductions include every lane") {
  for (const Isa& isa : machine()) {
    std::vector<float> x(64, 0.0f);
    for (std::size_t i = 0; i < 64; ++i) {
      x[i] = static_cast<float>(i + 1);
      float total, largest;
      double squares;
      isa.sums(x.data(), 64, &total, &largest, &squares);
      const double n = static_cast<double>(i + 1);
      CHECK(total == n * (n + 1) / 2);
      CHECK(largest == n);
      CHECK(squares == n * (n + 1) * (2 * n + 1) / 6);
    }
  }
}

}  // namespace comera::kernels
