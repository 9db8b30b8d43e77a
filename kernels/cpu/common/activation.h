// Activations fused to the end of a product, and their derivatives at the start of its backward, while a block is in
// the cache.
#pragma once

#include <type_traits>

#include "kernels/cpu/common/element.h"
#include "kernels/cpu/common/stream.h"
#if defined(COMERA_BF16_CALLS)
#include "kernels/cpu/bf16/near_normal.h"
#endif

namespace comera::kernels::COMERA_CPU {

struct Identity {
  static F value(F x) { return x; }
  static F derivative(F) { return set(1.0f); }
};
struct Gelu {
#if defined(COMERA_BF16_CALLS)
  static F value(F x) { return x * near_normal(x).below; }
  static F derivative(F x) {
    const Normal n = near_normal(x);
    return fma(x, n.density, n.below);
  }
#else
  static F value(F x) { return gelu(x); }
  static F derivative(F x) { return gelu_derivative(x); }
#endif
};
struct Silu {
  static F value(F x) { return silu(x); }
  static F derivative(F x) { return silu_derivative(x); }
};
struct Tanh {
  static F value(F x) { return tanh(x); }
  static F derivative(F x) { return tanh_derivative(x); }
};
struct GeluTanh {
  static F value(F x) { return gelu_tanh(x); }
  static F derivative(F x) { return gelu_tanh_derivative(x); }
};
struct Relu {
  static F value(F x) { return max(zero(), x); }
  static F derivative(F x) { return select(zero() < x, set(1.0f), zero()); }
};

template <class Visit>
void with_activation(Activation activation, Visit visit) {
  switch (activation) {
    case Activation::none: return visit(Identity{});
    case Activation::gelu: return visit(Gelu{});
    case Activation::silu: return visit(Silu{});
    case Activation::tanh: return visit(Tanh{});
    case Activation::gelu_tanh: return visit(GeluTanh{});
    case Activation::relu: return visit(Relu{});
  }
}

// Size of a block inside a larger matrix.
struct Block {
  std::int64_t rows, columns;
};

// pre = x + bias (bias and pre optional), y = act(pre). y may be x; x [rows, columns] at ldx, y and pre at ldy.
template <class Act, bool streaming = false, class Y>
void finish_rows(Block size, const float* x, std::int64_t ldx, const float* bias, std::type_identity_t<Y>* pre, Y* y,
                 std::int64_t ldy) {
  for (std::int64_t i = 0; i < size.rows; ++i) {
    RowWriter<Y, streaming> to(y + i * ldy, size.columns), to_pre(pre ? pre + i * ldy : y, pre ? size.columns : 0);
    for (std::int64_t j = 0; j < size.columns; j += F::width) {
      const std::int64_t lanes = min<std::int64_t>(F::width, size.columns - j);
      F value = load(x + i * ldx + j, lanes);
      if (bias) value = value + load(bias + j, lanes);
      if (pre) to_pre.write(j, value, lanes);
      to.write(j, Act::value(value), lanes);
    }
  }
  if constexpr (streaming) finish_streaming();
}

// Computes d_pre = dy act'(pre) into d_pre at ldd and adds column sums to `sums` (optional). Without activation, pre at
// ld_pre is not read. Prefetches the next block of the same rows into the L2 cache, because the following products
// leave time for it.
template <class Act, class Pre = Element>
void start_rows(Block size, const Element* dy, std::int64_t ld, const Pre* pre, std::int64_t ld_pre, Element* d_pre,
                std::int64_t ldd, float* sums) {
  for (std::int64_t i = 0; i < size.rows; ++i)
    for (std::int64_t j = 0; j < size.columns; j += F::width) {
      const std::int64_t lanes = min<std::int64_t>(F::width, size.columns - j);
      F value = load(dy + i * ld + j, lanes);
      _mm_prefetch(reinterpret_cast<const char*>(dy + i * ld + j + size.columns), _MM_HINT_T1);
      if (!__is_same(Act, Identity))
        _mm_prefetch(reinterpret_cast<const char*>(pre + i * ld_pre + j + size.columns), _MM_HINT_T1);
      if constexpr (!__is_same(Act, Identity)) value = value * Act::derivative(load(pre + i * ld_pre + j, lanes));
      if (!__is_same(Act, Identity) || d_pre != dy) store(d_pre + i * ldd + j, value, lanes);
      if (sums) store(sums + j, load(sums + j, lanes) + value, lanes);
    }
}

}  // namespace comera::kernels::COMERA_CPU
