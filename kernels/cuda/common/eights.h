// Reads and writes four or eight neighbouring elements of a row as floats. Accesses have 16 bytes if rows begin at
// multiples of 16 bytes; otherwise, and at a row's end, single elements. Eight features share one Philox call and, in
// bf16, one access.
#pragma once

#include <algorithm>
#include <type_traits>

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

// Vector is Four or Eight. Both addresses are multiples of 16 bytes.
template <class Vector, class T>
constexpr int lanes_of_access = std::min(static_cast<int>(sizeof(Vector) / sizeof(float)), lanes_of_vector<T>);
template <class Vector, class T>
COMERA_DEVICE Vector load_aligned(const T* from) {
  constexpr int width = sizeof(Vector) / sizeof(float), step = lanes_of_access<Vector, T>;
  Vector x;
#pragma unroll
  for (int j = 0; j < width; j += step) load_floats<step>(from + j, x.v + j);
  return x;
}
template <class Vector, class T>
COMERA_DEVICE void store_aligned(const Vector& x, T* to) {
  constexpr int width = sizeof(Vector) / sizeof(float), step = lanes_of_access<Vector, T>;
#pragma unroll
  for (int j = 0; j < width; j += step) store_floats<step>(x.v + j, to + j);
}

// Reads the elements of a row from `at` on; zero from `end` on.
template <class Vector, class T>
COMERA_DEVICE Vector get(const T* row, std::int64_t at, std::int64_t end, bool aligned) {
  constexpr int width = sizeof(Vector) / sizeof(float);
  if (aligned && at + width <= end) return load_aligned<Vector>(row + at);
  Vector x;
#pragma unroll
  for (int j = 0; j < width; ++j) x.v[j] = at + j < end ? to_float(row[at + j]) : 0.0f;
  return x;
}

template <class Vector, class T>
COMERA_DEVICE void put(T* row, std::int64_t at, std::int64_t end, bool aligned, const Vector& x) {
  constexpr int width = sizeof(Vector) / sizeof(float);
  if (aligned && at + width <= end) return store_aligned(x, row + at);
#pragma unroll
  for (int j = 0; j < width; ++j)
    if (at + j < end) row[at + j] = to_element<T>(x.v[j]);
}

// Neighbouring elements as stored. A kernel that loads its elements long before it uses them keeps them in this form:
// they need half the registers in bf16, and no instruction waits for the load before the first use.
template <class T, int count>
struct Stored {
  static constexpr bool whole = count * sizeof(T) % 16 == 0;  // then the address is a multiple of 16 bytes
  using Word = std::conditional_t<whole, unsigned, T>;
  static constexpr int words = count * sizeof(T) / sizeof(Word), step = whole ? 4 : 1;
  Word word[words] = {};

  COMERA_DEVICE void load(const T* from) {
#pragma unroll
    for (int i = 0; i < words; i += step) {
      const auto access = reinterpret_cast<const Elements<Word, step>*>(from)[i / step];
#pragma unroll
      for (int j = 0; j < step; ++j) word[i + j] = access.element[j];
    }
  }
  COMERA_DEVICE float operator[](int j) const {
    if constexpr (!whole)
      return to_float(word[j]);
    else if constexpr (sizeof(T) == 4)
      return float_of(word[j]);
    else
      return float_of(j % 2 == 0 ? word[j / 2] << 16 : word[j / 2] & 0xFFFF0000u);
  }
  COMERA_DEVICE Eight floats() const {
    static_assert(count == 8);
    Eight x;
#pragma unroll
    for (int j = 0; j < 8; ++j) x.v[j] = (*this)[j];
    return x;
  }
};
template <class T>
using StoredEight = Stored<T, 8>;

}  // namespace comera::kernels::cuda
