// Measures the peak rate of the arithmetic units, from registers alone. `comera bench` compares rates with this peak.
#include <cstdint>

#include "kernels/cpu/common/simd.h"

namespace comera::kernels::COMERA_CPU {

static constexpr int chains = 10;  // more than latency times units: 4 cycles, 2 units

static volatile float scale = 0.75F;  // volatile: unknown to the compiler; every chain converges to 1
static volatile float sink = 0;       // keeps the compiler from removing the loop

double multiply_adds(std::int64_t rounds) {
  F sums[chains];
  for (int chain = 0; chain < chains; ++chain) sums[chain] = set(0.1F * static_cast<float>(chain + 1));
  const F factor = set(scale), summand = set(1 - scale);
  for (std::int64_t round = 0; round < rounds; ++round)
    for (F& sum : sums) sum = fma(sum, factor, summand);
  F all = sums[0];
  for (int chain = 1; chain < chains; ++chain) all = fma(sums[chain], factor, all);
  float lanes[F::width];
  store(lanes, all);
  sink = lanes[0];
  return 2.0 * F::width * chains * static_cast<double>(rounds);
}

}  // namespace comera::kernels::COMERA_CPU
