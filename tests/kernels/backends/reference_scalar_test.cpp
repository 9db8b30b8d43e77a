// The reference's functions of a complex argument, against power series that were summed with 60 digits.
#include <catch2/catch.hpp>

#include "kernels/reference/scalar.h"

using namespace comera::kernels;
using Complex = std::complex<double>;

namespace {

void check_close(const Complex& got, const Complex& wanted, double relative) {
  CAPTURE(got, wanted);
  CHECK(std::abs(got - wanted) <= relative * std::abs(wanted));
}

TEST_CASE("erfc of complex arguments") {
  // 1 - erf: the difference of 1.3 and 1 is 0.3.
  check_close(reference::erfc_of(Complex(1, 1)), {-0.316151281697947644880, -0.190453469237834686284}, 4e-15);
  check_close(reference::erfc_of(Complex(2.5, 0.5)), {-0.000460241435521607132325, -0.000231819719909807113098}, 2e-15);
  check_close(reference::erfc_of(Complex(-3, 1)), {1.99994238613201376239562, -7.71795638137801357578e-7}, 1e-15);
  check_close(reference::erfc_of(Complex(0.5, -2)),
              {-12.8399856677412786826728930801, -1.04299250083142025863475104189714}, 1e-14);
}

TEST_CASE("erfc on the real axis has the C library's value and slope, on both sides of each change of formula") {
  for (double x = -6; x <= 6; x += 0.0625) {
    const Complex got = reference::erfc_of(Complex(x, 1e-60));
    const double slope = -2 / std::sqrt(reference::pi) * std::exp(-x * x);
    CAPTURE(x);
    // 1 - erf loses up to the ratio of 1 to erfc where the formula changes, at x = 2: 214.
    CHECK(std::abs(got.real() - std::erfc(x)) <= 214 * 4 * 0x1p-53 * std::erfc(x));
    // The slope is the difference of terms up to 2 x erf(x) < 4, which is 200 times the slope at x = 2.
    CHECK(std::abs(got.imag() / 1e-60 - slope) <= 200 * 16 * 0x1p-53 * std::max(std::abs(slope), std::erfc(x)));
  }
}

TEST_CASE("activations are analytic: their complex step is their derivative") {
  const auto kind = GENERATE(Activation::none, Activation::gelu, Activation::silu, Activation::tanh);
  for (double x = -9; x <= 9; x += 0.125) {
    const double step = reference::activate(kind, Complex(x, 1e-60)).imag() / 1e-60,
                 slope = reference::activation_derivative(kind, x);
    CAPTURE(x, static_cast<int>(kind));
    CHECK(std::abs(step - slope) <= 2e-13 * std::abs(slope) + 1e-15);
    CHECK(std::abs(reference::activate(kind, Complex(x)).real() - reference::activate(kind, x)) <=
          1e-13 * std::abs(reference::activate(kind, x)));
  }
}

}  // namespace
