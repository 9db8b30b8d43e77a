// Reads and writes four or eight neighbouring elements of a row as floats. Accesses have 16 bytes if rows begin at
// multiples of 16 bytes; otherwise, and at a row's end, single elements. Eight features share one Philox call and, in
// bf16, one access.
#pragma once

#include "kernels/cuda/common/vector.h"

namespace comera::kernels::cuda {

struct Four {
  float v[4];
};
struct Eight {
  float v[8];
};

// True if every row of all these matrices, `ld` elements of T apart, begins at a multiple of 16 bytes.
template <class T, class... Pointers>
bool all_aligned(std::int64_t ld, Pointers... data) {
  return (rows_are_aligned<T>(data, ld) && ...);
}

template <class... Pointers>
COMERA_DEVICE bool begin_aligned(Pointers... data) {
  return ((reinterpret_cast<std::uintptr_t>(data) % 16 == 0) && ...);
}

// Reads the elements of a row from `at` on; zero from `end` on. Vector is Four or Eight.
template <class Vector, class T>
COMERA_DEVICE Vector get(const T* row, std::int64_t at, std::int64_t end, bool aligned) {
  constexpr int width = sizeof(Vector) / sizeof(float), step = width < lanes_of_vector<T> ? width : lanes_of_vector<T>;
  Vector x;
  if (aligned && at + width <= end) {
#pragma unroll
    for (int j = 0; j < width; j += step) load_floats<step>(row + at + j, x.v + j);
  } else {
#pragma unroll
    for (int j = 0; j < width; ++j) x.v[j] = at + j < end ? to_float(row[at + j]) : 0.0f;
  }
  return x;
}

template <class Vector, class T>
COMERA_DEVICE void put(T* row, std::int64_t at, std::int64_t end, bool aligned, const Vector& x) {
  constexpr int width = sizeof(Vector) / sizeof(float), step = width < lanes_of_vector<T> ? width : lanes_of_vector<T>;
  if (aligned && at + width <= end) {
#pragma unroll
    for (int j = 0; j < width; j += step) store_floats<step>(x.v + j, row + at + j);
  } else {
#pragma unroll
    for (int j = 0; j < width; ++j)
      if (at + j < end) row[at + j] = to_element<T>(x.v[j]);
  }
}

}  // namespace comera::kernels::cuda
