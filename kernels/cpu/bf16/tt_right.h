// The right factor B [R, N] of a TT layer of bf16 activations: its words (pairs.h), packed for products with tiles of
// T1.
#pragma once

#include "kernels/cpu/bf16/pair_product.h"
#include "kernels/cpu/common/tt_panels.h"

namespace comera::kernels::COMERA_CPU {

inline Word* words(Workspace& workspace, std::int64_t count) {
  return reinterpret_cast<Word*>(workspace.floats(count));
}

// Packs the columns [j, j + columns) of a right factor [k, n], or of its transpose [n, k].
inline void pack_columns(std::int64_t k, std::int64_t n, std::int64_t j, std::int64_t columns, const Bf16* from,
                         bool transposed, Word* to) {
  const RightLayout layout(k, n);
  pack_right(k, columns, transposed ? from + j * k : from + j, transposed ? k : n, transposed, layout,
             to + layout.at(j));
}

class RightFactor {
 public:
  RightFactor() = default;
  RightFactor(const void* right, std::int64_t rank, std::int64_t n, std::int64_t, Workspace& workspace)
      : right_(elements(right)), rank_(rank), n_(n), words_(words(workspace, RightLayout::words(rank, n))) {}

  // Panel p of tiles_of(n, panel); all are packed before the first product.
  void pack(std::int64_t p) const {
    pack_columns(rank_, n_, p * panel, min(panel, n_ - p * panel), right_, false, words_);
  }

  // sums [rows, columns] = t1 B for columns from j, a multiple of `panel`; at most a panel.
  void multiply(std::int64_t rows, std::int64_t columns, const Bf16* t1, std::int64_t ld, std::int64_t j,
                float* sums) const {
    const RightLayout layout(rank_, n_);
    multiply_pairs({rows, columns, pairs_of(rank_), layout.ld, columns, false, layout.panel}, rows_of(t1, ld),
                   words_ + layout.at(j), sums);
  }

 private:
  const Bf16* right_ = nullptr;
  std::int64_t rank_ = 0, n_ = 0;
  Word* words_ = nullptr;
};

}  // namespace comera::kernels::COMERA_CPU
