// The type of activations. kernels/cpu is built once more for bf16 calls, with COMERA_BF16_CALLS; parameters, their
// gradients, statistics and sums stay float (kernels/types.h).
#pragma once

#include "kernels/cpu/common/simd.h"
#include "kernels/types.h"

namespace comera::kernels::COMERA_CPU {

#if defined(COMERA_BF16_CALLS)
using Element = Bf16;
constexpr DType element_type = DType::bf16;
#else
using Element = float;
constexpr DType element_type = DType::f32;
#endif

inline const Element* elements(const void* p) { return static_cast<const Element*>(p); }
inline Element* elements(void* p) { return static_cast<Element*>(p); }

// One number, for loops without vectors.
inline float number(float x) { return x; }
inline float number(Bf16 x) { return __builtin_bit_cast(float, static_cast<std::uint32_t>(x.bits) << 16); }
inline void set_number(float& to, float x) { to = x; }
inline void set_number(Bf16& to, float x) { store(&to, set(x), std::int64_t{1}); }

// Sums and maxima over rows whose last vector is partial: its other lanes are 0, or the first number of the row.
inline F keep_lanes(F a, All) { return a; }
inline F keep_lanes(F a, Some lanes) { return keep(first_lanes(lanes.n), a); }
inline F load_or_first(const Element* x, std::int64_t i, All) { return load(x + i); }
inline F load_or_first(const Element* x, std::int64_t i, Some lanes) {
  return select(first_lanes(lanes.n), load(x + i, lanes), set(number(x[0])));
}
inline float largest_of(const Element* x, std::int64_t count) {
  F largest = set(number(x[0]));
  sweep(0, count, [&](std::int64_t i, auto lanes) { largest = max(largest, load_or_first(x, i, lanes)); });
  return max_lane(largest);
}

}  // namespace comera::kernels::COMERA_CPU
