// Vectors of float, int32 and double for the instruction set of the compilation: 16 lanes with AVX-512, 8 with AVX2.
// All functions after the primitives are shared. A tail of n lanes uses the same operations as a full vector, so the
// result of an element depends on its value alone, not on its position.
//
// Products and sums that must have the same bits in two places call fma() explicitly, because the compiler may contract
// `a * b + c`.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/cpu/common/isa.h"

#ifndef COMERA_ISA
#error "kernels/cpu/common/simd.h is for files compiled once per instruction set (COMERA_ISA)"
#endif

namespace comera::kernels::COMERA_CPU {

// An activation in bf16: the upper half of a float. Loads give vectors of float, stores round to the nearest, ties to
// even; NaN stays NaN.
struct Bf16 {
  std::uint16_t bits;
};

#if defined(__AVX512F__)

struct F {
  static constexpr int width = 16;
  __m512 v;
};
struct I {
  static constexpr int width = 16;
  __m512i v;
};
struct D {
  static constexpr int width = 8;
  __m512d v;
};
struct Mask {
  __mmask16 v;
};

inline F set(float x) { return {_mm512_set1_ps(x)}; }
inline I set(std::int32_t x) { return {_mm512_set1_epi32(x)}; }
inline D set(double x) { return {_mm512_set1_pd(x)}; }
inline Mask first_lanes(std::int64_t n) { return {static_cast<__mmask16>((1u << n) - 1)}; }  // 0 <= n <= 16

inline F load(const float* p) { return {_mm512_loadu_ps(p)}; }
inline F load(const float* p, std::int64_t n) { return {_mm512_maskz_loadu_ps(first_lanes(n).v, p)}; }
inline void store(float* p, F a) { _mm512_storeu_ps(p, a.v); }
inline void store(float* p, F a, std::int64_t n) { _mm512_mask_storeu_ps(p, first_lanes(n).v, a.v); }
inline I load(const std::int32_t* p) { return {_mm512_loadu_si512(p)}; }
inline I load(const std::int32_t* p, std::int64_t n) { return {_mm512_maskz_loadu_epi32(first_lanes(n).v, p)}; }
inline void store(std::int32_t* p, I a) { _mm512_storeu_si512(p, a.v); }
inline void store(std::int32_t* p, I a, std::int64_t n) { _mm512_mask_storeu_epi32(p, first_lanes(n).v, a.v); }

// Lanes of 16 bits that hold the upper halves of floats.
inline F widened(__m256i halves) { return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16))}; }
#if defined(__AVX512BF16__)
// Numbers below the smallest normal float become zero.
inline __m256i narrowed(F a) { return __builtin_bit_cast(__m256i, _mm512_cvtneps_pbh(a.v)); }
#else
inline __m256i narrowed(F a) {
  const __m512i x = _mm512_castps_si512(a.v), odd = _mm512_and_si512(_mm512_srli_epi32(x, 16), _mm512_set1_epi32(1));
  const __m512i nearest = _mm512_add_epi32(x, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
  const __m512i quiet = _mm512_or_si512(x, _mm512_set1_epi32(0x400000));
  const __mmask16 number = _mm512_cmp_ps_mask(a.v, a.v, _CMP_ORD_Q);
  return _mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_mask_blend_epi32(number, quiet, nearest), 16));
}
#endif
inline F load(const Bf16* p) { return widened(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))); }
inline F load(const Bf16* p, std::int64_t n) { return widened(_mm256_maskz_loadu_epi16(first_lanes(n).v, p)); }
inline void store(Bf16* p, F a) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), narrowed(a)); }
inline void store(Bf16* p, F a, std::int64_t n) { _mm256_mask_storeu_epi16(p, first_lanes(n).v, narrowed(a)); }

inline F fma(F a, F b, F c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }    // a b + c
inline F fms(F a, F b, F c) { return {_mm512_fmsub_ps(a.v, b.v, c.v)}; }    // a b - c
inline F fnma(F a, F b, F c) { return {_mm512_fnmadd_ps(a.v, b.v, c.v)}; }  // c - a b
inline F min(F a, F b) { return {_mm512_min_ps(a.v, b.v)}; }                // b where either is NaN
inline F max(F a, F b) { return {_mm512_max_ps(a.v, b.v)}; }                // b where either is NaN
inline F sqrt(F a) { return {_mm512_sqrt_ps(a.v)}; }
inline F round(F a) { return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)}; }
inline I as_int(F a) { return {_mm512_castps_si512(a.v)}; }
inline F as_float(I a) { return {_mm512_castsi512_ps(a.v)}; }
inline I to_int(F a) { return {_mm512_cvtps_epi32(a.v)}; }
inline I truncated(F a) { return {_mm512_cvttps_epi32(a.v)}; }
inline F gather(const float* p, I at) { return {_mm512_i32gather_ps(at.v, p, 4)}; }
// A lane per byte, for values of 0 to 255.
inline I load_bytes(const std::uint8_t* p) {
  return {_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
// The same for values of -128 to 127.
inline I load_signed_bytes(const std::int8_t* p) {
  return {_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
inline void store_bytes(std::uint8_t* p, I a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(a.v));
}
// The same for four vectors, whose lanes are neighbours.
inline void store_bytes(std::uint8_t* p, I a, I b, I c, I d) {
  const __m512i bytes = _mm512_packus_epi16(_mm512_packus_epi32(a.v, b.v), _mm512_packus_epi32(c.v, d.v));
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  _mm512_storeu_si512(p, _mm512_permutexvar_epi32(order, bytes));
}
inline F to_float(I a) { return {_mm512_cvtepi32_ps(a.v)}; }
inline I operator&(I a, I b) { return {_mm512_and_si512(a.v, b.v)}; }
inline I operator|(I a, I b) { return {_mm512_or_si512(a.v, b.v)}; }
inline I operator^(I a, I b) { return {_mm512_xor_si512(a.v, b.v)}; }
inline I operator+(I a, I b) { return {_mm512_add_epi32(a.v, b.v)}; }
inline I operator-(I a, I b) { return {_mm512_sub_epi32(a.v, b.v)}; }
template <int bits>
inline I shift_left(I a) {
  return {_mm512_slli_epi32(a.v, bits)};
}
template <int bits>
inline I shift_right(I a) {
  return {_mm512_srli_epi32(a.v, bits)};
}
inline Mask operator<(F a, F b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)}; }
inline Mask operator==(F a, F b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_EQ_OQ)}; }
inline Mask operator==(I a, I b) { return {_mm512_cmpeq_epi32_mask(a.v, b.v)}; }
inline F select(Mask m, F yes, F no) { return {_mm512_mask_blend_ps(m.v, no.v, yes.v)}; }
inline std::uint32_t bits_of(Mask m) { return m.v; }
inline F keep(Mask m, F a) { return {_mm512_maskz_mov_ps(m.v, a.v)}; }  // zero elsewhere
inline D low_half(F a) { return {_mm512_cvtps_pd(_mm512_castps512_ps256(a.v))}; }
inline D high_half(F a) { return {_mm512_cvtps_pd(_mm512_extractf32x8_ps(a.v, 1))}; }
inline F join(D low, D high) {
  return {_mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(low.v)), _mm512_cvtpd_ps(high.v), 1)};
}
inline D fma(D a, D b, D c) { return {_mm512_fmadd_pd(a.v, b.v, c.v)}; }
inline D load(const double* p) { return {_mm512_loadu_pd(p)}; }
inline void store(double* p, D a) { _mm512_storeu_pd(p, a.v); }
inline F scale_by_power(F a, F n) { return {_mm512_scalef_ps(a.v, n.v)}; }  // a 2^n, n is a whole number

inline __m256 fold_halves(F a, __m256 (*op)(__m256, __m256)) {
  return op(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
}
inline double sum(D a) {
  const __m256d h = _mm256_add_pd(_mm512_castpd512_pd256(a.v), _mm512_extractf64x4_pd(a.v, 1));
  const __m128d q = _mm_add_pd(_mm256_castpd256_pd128(h), _mm256_extractf128_pd(h, 1));
  return _mm_cvtsd_f64(_mm_add_sd(q, _mm_unpackhi_pd(q, q)));
}

#else

struct F {
  static constexpr int width = 8;
  __m256 v;
};
struct I {
  static constexpr int width = 8;
  __m256i v;
};
struct D {
  static constexpr int width = 4;
  __m256d v;
};
struct Mask {
  __m256 v;
};

inline F set(float x) { return {_mm256_set1_ps(x)}; }
inline I set(std::int32_t x) { return {_mm256_set1_epi32(x)}; }
inline D set(double x) { return {_mm256_set1_pd(x)}; }
inline Mask first_lanes(std::int64_t n) {  // 0 <= n <= 8
  const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return {_mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), lanes))};
}

inline F load(const float* p) { return {_mm256_loadu_ps(p)}; }
// Full vectors are accessed without a mask, because masked stores are ten times slower on AMD processors.
inline F load(const float* p, std::int64_t n) {
  return n >= F::width ? load(p) : F{_mm256_maskload_ps(p, _mm256_castps_si256(first_lanes(n).v))};
}
inline void store(float* p, F a) { _mm256_storeu_ps(p, a.v); }
inline void store(float* p, F a, std::int64_t n) {
  if (n >= F::width) return store(p, a);
  _mm256_maskstore_ps(p, _mm256_castps_si256(first_lanes(n).v), a.v);
}
inline I load(const std::int32_t* p) { return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))}; }
inline I load(const std::int32_t* p, std::int64_t n) {
  return n >= I::width ? load(p) : I{_mm256_maskload_epi32(p, _mm256_castps_si256(first_lanes(n).v))};
}
inline void store(std::int32_t* p, I a) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), a.v); }
inline void store(std::int32_t* p, I a, std::int64_t n) {
  if (n >= I::width) return store(p, a);
  _mm256_maskstore_epi32(p, _mm256_castps_si256(first_lanes(n).v), a.v);
}

// Lanes of 16 bits that hold the upper halves of floats.
inline F widened(__m128i halves) { return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16))}; }
inline __m128i narrowed(F a) {
  const __m256i x = _mm256_castps_si256(a.v), odd = _mm256_and_si256(_mm256_srli_epi32(x, 16), _mm256_set1_epi32(1));
  const __m256i nearest = _mm256_add_epi32(x, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
  const __m256i quiet = _mm256_or_si256(x, _mm256_set1_epi32(0x400000));
  const __m256i number = _mm256_castps_si256(_mm256_cmp_ps(a.v, a.v, _CMP_ORD_Q));
  const __m256i halves = _mm256_srli_epi32(_mm256_blendv_epi8(quiet, nearest, number), 16);
  return _mm_packus_epi32(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1));
}
inline F load(const Bf16* p) { return widened(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))); }
inline F load(const Bf16* p, std::int64_t n) {
  if (n >= F::width) return load(p);
  __m128i halves = _mm_setzero_si128();
  __builtin_memcpy(&halves, p, static_cast<std::size_t>(n) * sizeof(Bf16));
  return widened(halves);
}
inline void store(Bf16* p, F a) { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), narrowed(a)); }
inline void store(Bf16* p, F a, std::int64_t n) {
  const __m128i halves = narrowed(a);
  __builtin_memcpy(p, &halves, static_cast<std::size_t>(n < F::width ? n : F::width) * sizeof(Bf16));
}

inline F fma(F a, F b, F c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }    // a b + c
inline F fms(F a, F b, F c) { return {_mm256_fmsub_ps(a.v, b.v, c.v)}; }    // a b - c
inline F fnma(F a, F b, F c) { return {_mm256_fnmadd_ps(a.v, b.v, c.v)}; }  // c - a b
inline F min(F a, F b) { return {_mm256_min_ps(a.v, b.v)}; }                // b where either is NaN
inline F max(F a, F b) { return {_mm256_max_ps(a.v, b.v)}; }                // b where either is NaN
inline F sqrt(F a) { return {_mm256_sqrt_ps(a.v)}; }
inline F round(F a) { return {_mm256_round_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)}; }
inline I as_int(F a) { return {_mm256_castps_si256(a.v)}; }
inline F as_float(I a) { return {_mm256_castsi256_ps(a.v)}; }
inline I to_int(F a) { return {_mm256_cvtps_epi32(a.v)}; }
inline I truncated(F a) { return {_mm256_cvttps_epi32(a.v)}; }
inline F gather(const float* p, I at) { return {_mm256_i32gather_ps(p, at.v, 4)}; }
inline I load_bytes(const std::uint8_t* p) {
  return {_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)))};
}
inline I load_signed_bytes(const std::int8_t* p) {
  return {_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)))};
}
inline void store_bytes(std::uint8_t* p, I a) {
  const __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(a.v), _mm256_extracti128_si256(a.v, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packus_epi16(words, words));
}
inline void store_bytes(std::uint8_t* p, I a, I b, I c, I d) {
  const __m256i bytes = _mm256_packus_epi16(_mm256_packus_epi32(a.v, b.v), _mm256_packus_epi32(c.v, d.v));
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permutevar8x32_epi32(bytes, order));
}
inline F to_float(I a) { return {_mm256_cvtepi32_ps(a.v)}; }
inline I operator&(I a, I b) { return {_mm256_and_si256(a.v, b.v)}; }
inline I operator|(I a, I b) { return {_mm256_or_si256(a.v, b.v)}; }
inline I operator^(I a, I b) { return {_mm256_xor_si256(a.v, b.v)}; }
inline I operator+(I a, I b) { return {_mm256_add_epi32(a.v, b.v)}; }
inline I operator-(I a, I b) { return {_mm256_sub_epi32(a.v, b.v)}; }
template <int bits>
inline I shift_left(I a) {
  return {_mm256_slli_epi32(a.v, bits)};
}
template <int bits>
inline I shift_right(I a) {
  return {_mm256_srli_epi32(a.v, bits)};
}
inline Mask operator<(F a, F b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_LT_OQ)}; }
inline Mask operator==(F a, F b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_EQ_OQ)}; }
inline Mask operator==(I a, I b) { return {_mm256_castsi256_ps(_mm256_cmpeq_epi32(a.v, b.v))}; }
inline F select(Mask m, F yes, F no) { return {_mm256_blendv_ps(no.v, yes.v, m.v)}; }
inline std::uint32_t bits_of(Mask m) { return static_cast<std::uint32_t>(_mm256_movemask_ps(m.v)); }
inline F keep(Mask m, F a) { return {_mm256_and_ps(m.v, a.v)}; }  // zero elsewhere
inline D low_half(F a) { return {_mm256_cvtps_pd(_mm256_castps256_ps128(a.v))}; }
inline D high_half(F a) { return {_mm256_cvtps_pd(_mm256_extractf128_ps(a.v, 1))}; }
inline F join(D low, D high) { return {_mm256_set_m128(_mm256_cvtpd_ps(high.v), _mm256_cvtpd_ps(low.v))}; }
inline D fma(D a, D b, D c) { return {_mm256_fmadd_pd(a.v, b.v, c.v)}; }
inline D load(const double* p) { return {_mm256_loadu_pd(p)}; }
inline void store(double* p, D a) { _mm256_storeu_pd(p, a.v); }
// a 2^n, n is a whole number, |n| <= 252. Two steps, so that subnormal results are right.
inline F scale_by_power(F a, F n) {
  const I whole = to_int(n);
  const I half = {_mm256_srai_epi32(whole.v, 1)};
  const I bias = set(std::int32_t{127});
  const __m256 scaled = _mm256_mul_ps(a.v, as_float(shift_left<23>(half + bias)).v);
  return {_mm256_mul_ps(scaled, as_float(shift_left<23>(whole - half + bias)).v)};
}

inline __m256 fold_halves(F a, __m256 (*)(__m256, __m256)) { return a.v; }
inline double sum(D a) {
  const __m128d q = _mm_add_pd(_mm256_castpd256_pd128(a.v), _mm256_extractf128_pd(a.v, 1));
  return _mm_cvtsd_f64(_mm_add_sd(q, _mm_unpackhi_pd(q, q)));
}

#endif

// The largest float that is not above x. For floats f, f > x is equivalent to f > not_above(x).
inline float not_above(double x) {
  const float nearest = static_cast<float>(x);
  return nearest > x ? __builtin_nextafterf(nearest, -__builtin_inff()) : nearest;
}

// Lanes of an access: a full vector, or the rest of a row.
struct All {};
struct Some {
  std::int64_t n;
};
template <class T>
inline auto load(const T* p, All) {
  return load(p);
}
template <class T>
inline auto load(const T* p, Some lanes) {
  return load(p, lanes.n);
}
template <class T, class V>
inline void store(T* p, V a, All) {
  store(p, a);
}
template <class T, class V>
inline void store(T* p, V a, Some lanes) {
  store(p, a, lanes.n);
}

// Calls body(i, lanes) for the vectors of [begin, end). The last vector may be partial.
template <class Body>
inline void sweep(std::int64_t begin, std::int64_t end, Body&& body) {
  std::int64_t i = begin;
  for (; i + F::width <= end; i += F::width) body(i, All{});
  if (i < end) body(i, Some{end - i});
}

inline F operator+(F a, F b) { return {a.v + b.v}; }
inline F operator-(F a, F b) { return {a.v - b.v}; }
inline F operator*(F a, F b) { return {a.v * b.v}; }
inline F operator/(F a, F b) { return {a.v / b.v}; }
inline D operator+(D a, D b) { return {a.v + b.v}; }
inline D operator-(D a, D b) { return {a.v - b.v}; }
inline D operator*(D a, D b) { return {a.v * b.v}; }
inline D operator/(D a, D b) { return {a.v / b.v}; }
inline F zero() { return set(0.0f); }
inline F abs(F a) { return as_float(as_int(a) & set(std::int32_t{0x7fffffff})); }
inline F negate(F a) { return as_float(as_int(a) ^ set(static_cast<std::int32_t>(0x80000000u))); }
inline F copy_sign(F magnitude, F sign) {
  return as_float(as_int(abs(magnitude)) | (as_int(sign) & set(static_cast<std::int32_t>(0x80000000u))));
}

// Reductions over lanes: the vector is folded in half until one lane is left, always by the same tree.
inline __m256 add_halves(__m256 a, __m256 b) { return _mm256_add_ps(a, b); }
inline __m256 max_halves(__m256 a, __m256 b) { return _mm256_max_ps(a, b); }
inline float sum(F a) {
  const __m256 h = fold_halves(a, add_halves);
  const __m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
  const __m128 p = _mm_add_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_add_ss(p, _mm_shuffle_ps(p, p, 1)));
}
inline float max_lane(F a) {
  const __m256 h = fold_halves(a, max_halves);
  const __m128 q = _mm_max_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
  const __m128 p = _mm_max_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_max_ss(p, _mm_shuffle_ps(p, p, 1)));
}

// A sum of floats, or of their products, in double.
struct DoubleSum {
  D low = set(0.0), high = set(0.0);
  void add(F a) {
    low = low + low_half(a);
    high = high + high_half(a);
  }
  void add_product(F a, F b) {
    low = fma(low_half(a), low_half(b), low);
    high = fma(high_half(a), high_half(b), high);
  }
  double total() const { return sum(low + high); }
};

// The coefficients below are original minimax fits (Lawson iteration) in relative error. Largest errors in units in the
// last place, checked by tests/kernels/backends/simd_test.cpp over arguments of every size: exp 1, erf 1.5, tanh and
// logistic 2.5, silu 3.5, tanh' 4, silu' 5, normal and gelu' 6, gelu 6.5, gelu_tanh 4, gelu_tanh' 5. For gelu' and
// silu' the unit is that of the sum of their two terms, and for gelu_tanh and its derivative that of their
// sensitivity to the relative error of the argument of their logistic function. NaN gives NaN.

// Evaluates a polynomial in x, lowest coefficient first.
template <int n>
inline F polynomial(F x, const float (&c)[n]) {
  F sum = set(c[n - 1]);
  for (int i = n - 2; i >= 0; --i) sum = fma(sum, x, set(c[i]));
  return sum;
}

struct Reduced {
  F n, r;  // x = n ln 2 + r, |r| <= ln 2 / 2
};
inline Reduced reduce_exponent(F x) {
  const F n = round(x * set(1.44269504f));
  // ln 2 in two parts; the product with the first part is exact.
  return {n, fnma(n, set(-2.12194440e-4f), fnma(n, set(0.693359375f), x))};
}
// e^r - 1 for |r| <= ln 2 / 2
inline F expm1_reduced(F r) {
  const F p = polynomial(r, {0.49999997f, 0.16666543f, 0.041667204f, 0.008366533f, 0.0013882292f});
  return fma(r * r, p, r);
}

// e^x. Overflow gives infinity; underflow passes through subnormals to 0.
inline F exp(F x) {
  const Reduced part = reduce_exponent(max(set(-104.0f), min(set(104.0f), x)));
  return scale_by_power(expm1_reduced(part.r) + set(1.0f), part.n);
}

inline F tanh(F x) {
  const F t = abs(x);
  const Reduced part = reduce_exponent(min(set(20.0f), t + t));
  const F power = scale_by_power(set(1.0f), part.n);
  const F e = fma(power, expm1_reduced(part.r), power - set(1.0f));  // e^(2|x|) - 1
  return copy_sign(e / (e + set(2.0f)), x);
}

// The logistic function and its complement, both without cancellation.
struct Logistic {
  F value, complement;  // s(x), s(-x) = 1 - s(x)
};
inline Logistic logistic(F x) {
  const F e = exp(negate(abs(x)));
  const F large = set(1.0f) / (set(1.0f) + e);
  const F small = e * large;
  const Mask negative = x < zero();
  return {select(negative, small, large), select(negative, large, small)};
}
inline F sigmoid(F x) { return logistic(x).value; }

// Density and cumulative probability of the normal distribution, with a small relative error in the lower tail too:
// Phi(-t) = e^(-t^2/2) P(q) / (t + 4) with q = (t - 4) / (t + 4).
struct Normal {
  F density, below;
};
inline Normal normal(F x) {
  const F t = min(set(20.0f), abs(x));
  const F square = t * t;
  const F rounding = fms(t, t, square);
  F e = exp(square * set(-0.5f));
  e = fnma(e * set(0.5f), rounding, e);  // corrects the rounding of t * t
  const F k = set(1.0f) / (t + set(4.0f));
  const F q = (t - set(4.0f)) * k;
  const F p = polynomial(q, {0.75528514f, -0.60789657f, 0.3871369f, -0.18652344f, 0.060403828f, -0.007525265f,
                             -0.0035125334f, 0.0015699208f, 0.00017932310f, -0.00013198856f});
  const F tail = e * (k * p);
  return {e * set(0.398942280f), select(x < zero(), tail, set(1.0f) - tail)};
}

inline F erf(F x) {
  const F z = x * x;
  const F near = fma(x,
                     polynomial(z, {0.12837917f, -0.37612635f, 0.11283715f, -0.026860509f, 0.005203859f, -0.0008175637f,
                                    8.5130945e-05f}),
                     x);
  const F beyond = normal(negate(abs(x)) * set(1.41421356f)).below;
  return select(abs(x) < set(0.9f), near, copy_sign(fnma(set(2.0f), beyond, set(1.0f)), x));
}

inline F gelu(F x) { return x * normal(x).below; }
inline F gelu_derivative(F x) {
  const Normal n = normal(x);
  return fma(x, n.density, n.below);
}
inline F silu(F x) { return x * sigmoid(x); }
inline F silu_derivative(F x) {
  const Logistic s = logistic(x);
  return fma(s.value * s.complement, x, s.value);
}
// gelu_tanh(x) = x s(z), z = x (a + b x^2): s is the logistic function, a = 2 sqrt(2 / pi), b = 0.044715 a.
inline F gelu_tanh_argument(F x) { return x * fma(set(0.0713548163f), x * x, set(1.5957691216f)); }
inline F gelu_tanh(F x) { return x * sigmoid(gelu_tanh_argument(x)); }
inline F gelu_tanh_derivative(F x) {  // s(z) + x s(z) s(-z) (a + 3 b x^2)
  const Logistic s = logistic(gelu_tanh_argument(x));
  const F slope = fma(set(0.2140644488f), x * x, set(1.5957691216f));
  return fma(s.value * s.complement * x, slope, s.value);
}
inline F tanh_derivative(F x) {  // 4 e^(-2|x|) / (1 + e^(-2|x|))^2
  const F e = exp(abs(x) * set(-2.0f));
  const F d = set(1.0f) / (set(1.0f) + e);
  return set(4.0f) * e * d * d;
}

}  // namespace comera::kernels::COMERA_CPU
