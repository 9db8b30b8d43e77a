#include "lib/core/half.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

using namespace comera;

namespace {

// Rounds to `digits` significant bits, but not finer than 2^least: to nearest, ties to even.
double rounded(double value, int digits, int least) {
  if (value == 0 || !std::isfinite(value)) return value;
  const double unit = std::ldexp(1.0, std::max(std::ilogb(value) - digits + 1, least));
  return std::nearbyint(value / unit) * unit;
}

template <class From, class To>
int wrong_round_trips(From from, To to) {
  int wrong = 0;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = from(static_cast<std::uint16_t>(bits));
    if (std::isnan(value)) {
      wrong += !std::isnan(from(to(value)));
    } else {
      wrong += to(value) != bits;
    }
  }
  return wrong;
}

}  // namespace

TEST_CASE("half: every 16-bit pattern survives a round trip") {
  CHECK(wrong_round_trips(half_to_float, float_to_half) == 0);
  CHECK(wrong_round_trips(bf16_to_float, float_to_bf16) == 0);
}

TEST_CASE("half: rounding is to nearest, ties to even, over the whole range") {
  int wrong_half = 0, wrong_bf16 = 0;
  for (std::uint64_t bits = 0; bits < 0x7f800000u; bits += 997) {
    const float value = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    const double half = rounded(value, 11, -24), wide = rounded(value, 8, -133);
    wrong_half += static_cast<double>(half_to_float(float_to_half(value))) !=
                  (half > 65504 ? std::numeric_limits<double>::infinity() : half);
    wrong_bf16 += static_cast<double>(bf16_to_float(float_to_bf16(value))) !=
                  (wide >= 0x1p128 ? std::numeric_limits<double>::infinity() : wide);
    wrong_half += float_to_half(-value) != (float_to_half(value) | 0x8000);
  }
  CHECK(wrong_half == 0);
  CHECK(wrong_bf16 == 0);
  CHECK(float_to_half(1.0f + 0x1p-11f) == 0x3c00);             // a tie, down to even
  CHECK(float_to_half(1.0f + 0x1p-10f + 0x1p-11f) == 0x3c02);  // a tie, up to even
  CHECK(float_to_bf16(1.0f + 0x1p-8f) == 0x3f80);
}
