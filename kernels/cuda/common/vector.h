// Loads and stores of neighbouring elements of a row, 16 bytes at a time if pointers and leading dimensions allow it.
#pragma once

#include "kernels/cuda/common/element.h"

namespace comera::kernels::cuda {

// The elements of one access, of any type.
template <class T, int count>
struct [[gnu::may_alias]] alignas(count * sizeof(T)) Elements {
  T element[count];
};

template <class T>
constexpr int lanes_of_vector = 16 / static_cast<int>(sizeof(T));

template <int count, class T>
COMERA_DEVICE void load_floats(const T* from, float* to) {
  const Elements<T, count> elements = *reinterpret_cast<const Elements<T, count>*>(from);
#pragma unroll
  for (int i = 0; i < count; ++i) to[i] = to_float(elements.element[i]);
}

template <int count, class T>
COMERA_DEVICE void store_floats(const float* from, T* to) {
  if constexpr (sizeof(T) == 2 && count % 2 == 0) {
    Elements<unsigned, count / 2> pairs;
#pragma unroll
    for (int i = 0; i < count / 2; ++i) pairs.element[i] = pair_of(from[2 * i], from[2 * i + 1]);
    *reinterpret_cast<Elements<unsigned, count / 2>*>(to) = pairs;
  } else {
    Elements<T, count> elements;
#pragma unroll
    for (int i = 0; i < count; ++i) elements.element[i] = to_element<T>(from[i]);
    *reinterpret_cast<Elements<T, count>*>(to) = elements;
  }
}

// True if all rows, `ld` elements of T apart from `data` on, begin at multiples of 16 bytes, or if `data` is null.
template <class T>
bool rows_are_aligned(const void* data, std::int64_t ld) {
  return !data || (reinterpret_cast<std::uintptr_t>(data) % 16 == 0 && ld % lanes_of_vector<T> == 0);
}

}  // namespace comera::kernels::cuda
