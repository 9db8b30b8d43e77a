// Sums two quantities over many rows for every column. Each block of a launch writes its partial sums [2, columns];
// group_sums.h adds those of all blocks.
#pragma once

#include "kernels/cuda/common/group_sums.h"

namespace comera::kernels::cuda {

// Largest number of blocks of the launch.
constexpr std::int64_t partial_blocks = 384;

// first (and second) += the blocks' sums, partial [blocks, 2, columns]. If `second` is null, the second partial sums
// are not read.
inline LateSums column_sums(std::int64_t blocks, std::int64_t columns, const void* partial, void* first, void* second) {
  const int groups = static_cast<int>(blocks);
  LateSums sums;
  sums.count = second ? 2 : 1;
  sums.sum[0] = {partial, first, columns, 2 * columns, groups};
  sums.sum[1] = {static_cast<const float*>(partial) + columns, second, columns, 2 * columns, groups};
  return sums;
}

}  // namespace comera::kernels::cuda
