#include "kernels/cuda/chains/divisor.h"

#include <catch2/catch.hpp>
#include <limits>

namespace comera::kernels::cuda {
namespace {

bool divides(int n, int d) {
  int rest = n;
  const int remainder = Divisor(d).split(rest);
  return rest == n / d && remainder == n % d;
}

}  // namespace

TEST_CASE("an index is divided exactly by a multiplication") {
  constexpr int most = std::numeric_limits<int>::max();
  for (int d = 1; d <= 1000; ++d) {
    int wrong = 0;
    for (int n = 0; n <= 3000; ++n) wrong += !divides(n, d) + !divides(most - n, d);
    // around multiples, where a rounded reciprocal would fail first
    for (int q = 1; q <= 1000; ++q) {
      const int multiple = most / d / q * d;
      wrong += !divides(multiple, d) + (multiple > 0 && !divides(multiple - 1, d));
    }
    CHECK(wrong == 0);
  }
  for (const int d : {(1 << 30) - 1, 1 << 30, (1 << 30) + 1, most - 1, most})
    for (const int n : {0, 1, d - 1, d, most - 1, most}) CHECK(divides(n, d));
}

}  // namespace comera::kernels::cuda
