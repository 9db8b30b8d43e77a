// Everything in kernels/cpu is compiled once per instruction set, into a namespace with its name (COMERA_ISA: v3, v4,
// and for bf16 calls v4bf16 and v4amx).
// The linker must not merge this code with that of another set. Therefore functions live in this namespace or are
// static, and the hot path uses no inline functions of the standard library, only headers without code such as
// <cstdint>.
#pragma once

#define COMERA_JOIN_(a, b) a##b
#define COMERA_JOIN(a, b) COMERA_JOIN_(a, b)
#define COMERA_CPU COMERA_JOIN(cpu_, COMERA_ISA)

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
