// Elementwise ops that are not fused into a neighbouring op, and gather and scatter of rows.
#pragma once

#include "kernels/types.h"

namespace comera::kernels {

// y = act(x); y may be x.
struct ActivationForward {
  Activation activation = Activation::gelu;
  std::int64_t count = 0;
  const void* x = nullptr;
  void* y = nullptr;
};
// dx = dy * act'(x); dx may be dy.
struct ActivationBackward {
  Activation activation = Activation::gelu;
  std::int64_t count = 0;
  const void* x = nullptr;
  const void* dy = nullptr;
  void* dx = nullptr;
};
// Rows of gate and up that are columns of a wider tensor: `columns` numbers of each, `ld` apart. 0: without gaps.
struct GatedRows {
  std::int64_t columns = 0, ld = 0;
  constexpr std::int64_t place(std::int64_t i) const { return ld == 0 ? i : i / columns * ld + i % columns; }
};
// y = act(gate) * up; and its gradient. d_gate may be gate, d_up may be up. y and dy have no gaps.
struct GatedForward {
  Activation activation = Activation::silu;
  std::int64_t count = 0;
  const void* gate = nullptr;
  const void* up = nullptr;
  void* y = nullptr;
  GatedRows rows = {};
};
struct GatedBackward {
  Activation activation = Activation::silu;
  std::int64_t count = 0;
  const void* gate = nullptr;
  const void* up = nullptr;
  const void* dy = nullptr;
  void* d_gate = nullptr;
  void* d_up = nullptr;
  GatedRows rows = {};  // also of d_gate and d_up
};

// y = x * mask / (1 - p). The same op is its own backward. y may be x. Masks use row k and feature j of [K, N].
struct DropoutApply {
  Dropout dropout;
  std::int64_t tokens = 0, columns = 0;
  const void* x = nullptr;
  void* y = nullptr;
};

struct Fill {  // sets every byte to zero
  void* data = nullptr;
  std::size_t bytes = 0;
};
struct AddScaled {  // y += scale * x
  std::int64_t count = 0;
  double scale = 1;
  const void* x = nullptr;
  void* y = nullptr;
};
struct GatherRows {  // y[i] = x[index[i]]; index < 0 gives a row of zeros
  std::int64_t rows = 0, columns = 0;
  const std::int32_t* index = nullptr;
  const void* x = nullptr;
  std::int64_t ldx = 0;
  void* y = nullptr;  // [rows, columns]
};
// dx[index[i]] += dy[i]; non-negative indices are distinct, negative ones are skipped. lddy 0: `columns`.
struct ScatterRows {
  std::int64_t rows = 0, columns = 0;
  const std::int32_t* index = nullptr;
  const void* dy = nullptr;
  void* dx = nullptr;
  std::int64_t lddx = 0, lddy = 0;

  std::int64_t source_distance() const { return lddy > 0 ? lddy : columns; }
};

constexpr double flops(const ActivationForward& a) { return 10.0 * a.count; }
constexpr double flops(const ActivationBackward& a) { return 14.0 * a.count; }
constexpr double flops(const GatedForward& a) { return 11.0 * a.count; }
constexpr double flops(const GatedBackward& a) { return 16.0 * a.count; }
constexpr double flops(const DropoutApply& a) { return 1.0 * a.tokens * a.columns; }
constexpr double flops(const Fill&) { return 0; }
constexpr double flops(const AddScaled& a) { return 2.0 * a.count; }
constexpr double flops(const GatherRows&) { return 0; }
constexpr double flops(const ScatterRows& a) { return 1.0 * a.rows * a.columns; }

}  // namespace comera::kernels
