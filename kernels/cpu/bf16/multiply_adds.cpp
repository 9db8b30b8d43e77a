// Measures the peak rate of products of bf16 pairs, from registers alone (as ../multiply_adds.cpp for floats).
#include <cstdint>

#include "kernels/cpu/common/simd.h"

namespace comera::kernels::COMERA_CPU {

static constexpr int chains = 20;  // more than latency times units: 6 cycles, 2 units

static volatile int halves = 0x3F003F00;  // two halves; volatile: unknown to the compiler
static volatile float sink = 0;           // keeps the compiler from removing the loop

double multiply_adds(std::int64_t rounds) {
  __m512 sums[chains];
  for (int chain = 0; chain < chains; ++chain) sums[chain] = set(0.1F * static_cast<float>(chain + 1)).v;
  const auto factor = __builtin_bit_cast(__m512bh, _mm512_set1_epi32(halves));
  for (std::int64_t round = 0; round < rounds; ++round)
    for (__m512& sum : sums) sum = _mm512_dpbf16_ps(sum, factor, factor);
  F all = {sums[0]};
  for (int chain = 1; chain < chains; ++chain) all = all + F{sums[chain]};
  float lanes[F::width];
  store(lanes, all);
  sink = lanes[0];
  return 4.0 * F::width * chains * static_cast<double>(rounds);
}

}  // namespace comera::kernels::COMERA_CPU
