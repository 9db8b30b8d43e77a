// The right factor B [R, N] of a TT layer, packed for products with tiles of T1.
#pragma once

#if defined(COMERA_BF16_CALLS)
#include "kernels/cpu/bf16/tt_right.h"
#else
#include "kernels/cpu/common/gemm.h"
#include "kernels/cpu/common/transpose.h"
#include "kernels/cpu/common/tt_panels.h"

namespace comera::kernels::COMERA_CPU {

constexpr std::int64_t packed_from = 512;  // tokens from which packing the right factor into panels pays off

// Copies panel p of right [rank, n] into contiguous memory; panels have `panel` columns.
inline void pack_panel(const float* right, std::int64_t rank, std::int64_t n, std::int64_t p, float* packed) {
  const std::int64_t columns = min(panel, n - p * panel);
  copy_block(rank, columns, right + p * panel, n, packed + p * panel * rank, columns);
}

class RightFactor {
 public:
  RightFactor() = default;
  RightFactor(const void* right, std::int64_t rank, std::int64_t n, std::int64_t tokens, Workspace& workspace)
      : right_(f32(right)), rank_(rank), n_(n), packed_(tokens >= packed_from ? workspace.floats(rank * n) : nullptr) {}

  // Panel p of tiles_of(n, panel); all are packed before the first product.
  void pack(std::int64_t p) const {
    if (packed_) pack_panel(right_, rank_, n_, p, packed_);
  }

  // sums [rows, columns] = t1 B for columns from j, a multiple of `panel`; at most a panel.
  void multiply(std::int64_t rows, std::int64_t columns, const float* t1, std::int64_t ld, std::int64_t j,
                float* sums) const {
    const float* right = packed_ ? packed_ + j * rank_ : right_ + j;
    SmallGemm({rows, columns, rank_, ld, packed_ ? columns : n_, columns})(t1, right, sums);
  }

 private:
  const float* right_ = nullptr;
  std::int64_t rank_ = 0, n_ = 0;
  float* packed_ = nullptr;
};

}  // namespace comera::kernels::COMERA_CPU
#endif
