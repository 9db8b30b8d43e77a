#include "kernels/cpu_peak.h"

#include <immintrin.h>

#include <cstring>

namespace comera::kernels {
namespace {

constexpr int chains = 10;  // more than latency times units: 4 cycles, 2 of them

volatile float scale = 0.75F;  // unknown to the compiler; every chain tends to 1
volatile float sink = 0;       // so that nothing is left out

__attribute__((target("avx2,fma"))) void wide_8(std::int64_t rounds) {
  __m256 a = _mm256_set1_ps(0.10F), b = _mm256_set1_ps(0.20F), c = _mm256_set1_ps(0.30F), d = _mm256_set1_ps(0.40F), e = _mm256_set1_ps(0.50F),
         f = _mm256_set1_ps(0.60F), g = _mm256_set1_ps(0.70F), h = _mm256_set1_ps(0.80F), k = _mm256_set1_ps(0.90F), j = _mm256_set1_ps(1.00F);
  const __m256 factor = _mm256_set1_ps(scale), summand = _mm256_set1_ps(1 - scale);
  for (std::int64_t round = 0; round < rounds; ++round) {
    a = _mm256_fmadd_ps(a, factor, summand);
    b = _mm256_fmadd_ps(b, factor, summand);
    c = _mm256_fmadd_ps(c, factor, summand);
    d = _mm256_fmadd_ps(d, factor, summand);
    e = _mm256_fmadd_ps(e, factor, summand);
    f = _mm256_fmadd_ps(f, factor, summand);
    g = _mm256_fmadd_ps(g, factor, summand);
    h = _mm256_fmadd_ps(h, factor, summand);
    k = _mm256_fmadd_ps(k, factor, summand);
    j = _mm256_fmadd_ps(j, factor, summand);
  }
  const __m256 sum = _mm256_add_ps(_mm256_add_ps(_mm256_add_ps(a, b), _mm256_add_ps(c, d)),
                                   _mm256_add_ps(_mm256_add_ps(_mm256_add_ps(e, f), _mm256_add_ps(g, h)), _mm256_add_ps(k, j)));
  sink = _mm256_cvtss_f32(sum);
}

__attribute__((target("avx512f"))) void wide_16(std::int64_t rounds) {
  __m512 a = _mm512_set1_ps(0.10F), b = _mm512_set1_ps(0.20F), c = _mm512_set1_ps(0.30F), d = _mm512_set1_ps(0.40F), e = _mm512_set1_ps(0.50F),
         f = _mm512_set1_ps(0.60F), g = _mm512_set1_ps(0.70F), h = _mm512_set1_ps(0.80F), k = _mm512_set1_ps(0.90F), j = _mm512_set1_ps(1.00F);
  const __m512 factor = _mm512_set1_ps(scale), summand = _mm512_set1_ps(1 - scale);
  for (std::int64_t round = 0; round < rounds; ++round) {
    a = _mm512_fmadd_ps(a, factor, summand);
    b = _mm512_fmadd_ps(b, factor, summand);
    c = _mm512_fmadd_ps(c, factor, summand);
    d = _mm512_fmadd_ps(d, factor, summand);
    e = _mm512_fmadd_ps(e, factor, summand);
    f = _mm512_fmadd_ps(f, factor, summand);
    g = _mm512_fmadd_ps(g, factor, summand);
    h = _mm512_fmadd_ps(h, factor, summand);
    k = _mm512_fmadd_ps(k, factor, summand);
    j = _mm512_fmadd_ps(j, factor, summand);
  }
  const __m512 sum = _mm512_add_ps(_mm512_add_ps(_mm512_add_ps(a, b), _mm512_add_ps(c, d)),
                                   _mm512_add_ps(_mm512_add_ps(_mm512_add_ps(e, f), _mm512_add_ps(g, h)), _mm512_add_ps(k, j)));
  sink = _mm512_cvtss_f32(sum);
}

}  // namespace

double run_multiply_adds(const char* isa, std::int64_t rounds) {
  const bool wide = std::strcmp(isa, "v4") == 0 || std::strcmp(isa, "v4bf16") == 0;
  if (!wide && std::strcmp(isa, "v3") != 0) return 0;
  wide ? wide_16(rounds) : wide_8(rounds);
  return 2.0 * (wide ? 16 : 8) * chains * static_cast<double>(rounds);
}

}  // namespace comera::kernels
