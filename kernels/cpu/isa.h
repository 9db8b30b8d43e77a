// Everything in kernels/cpu is compiled once per instruction set, into a namespace named after it (COMERA_ISA: v3, v4,
// v4bf16). Code here must not be merged by the linker with that of another set: functions live in this namespace or are
// static, and inline functions of the standard library stay out of the hot path (only what folds away, such as
// <cstdint>, comes in).
#pragma once

#define COMERA_JOIN_(a, b) a##b
#define COMERA_JOIN(a, b) COMERA_JOIN_(a, b)
#define COMERA_CPU COMERA_JOIN(cpu_, COMERA_ISA)
#define COMERA_TEXT_(a) #a
#define COMERA_TEXT(a) COMERA_TEXT_(a)

namespace comera::kernels::COMERA_CPU {

template <class T>
constexpr T min(T a, T b) {
  return a < b ? a : b;
}
template <class T>
constexpr T max(T a, T b) {
  return a < b ? b : a;
}
template <class T>
constexpr T tiles_of(T size, T tile) {
  return (size + tile - 1) / tile;
}

}  // namespace comera::kernels::COMERA_CPU
