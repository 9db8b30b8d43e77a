// Adds sums over groups (kernels/late_sums.h): in a kernel that has other work, or in a launch for them alone
// (late_sums.cu).
#pragma once

#include "kernels/cuda/common/vector.h"
#include "kernels/late_sums.h"

namespace comera::kernels::cuda {

constexpr int parts_in_flight = 4;  // that a thread loads before it adds the first one

// A warp adds one or several pieces of the columns at a time, `width` columns in a lane. 2^lanes lanes share the
// groups, as few as load all of them at once, because lanes that have the same group read neighbouring columns. The
// number of groups fixes the order.
template <int width>
struct GroupSum {
  const float* parts = nullptr;
  float* to = nullptr;
  int count = 0, ld = 0, groups = 0, lanes = 0, pieces = 0;

  // Adds the pieces `piece`, `piece` + `step` and so on. Their loads are in flight at once.
  template <int pieces_at_once>
  __device__ void add(int piece, int step) const {
    const int lane = static_cast<int>(threadIdx.x) % warp_size, across = warp_size >> lanes, first = lane / across;
    int column[pieces_at_once];
    float total[pieces_at_once][width] = {}, sum[pieces_at_once][width] = {};
#pragma unroll
    for (int k = 0; k < pieces_at_once; ++k) {
      column[k] = ((piece + k * step) * across + lane % across) * width;
      if (column[k] < count && first == 0) load_floats<width>(to + column[k], sum[k]);
    }
    for (int group = first; group < groups; group += parts_in_flight << lanes) {
      float part[pieces_at_once][parts_in_flight][width] = {};
#pragma unroll
      for (int k = 0; k < pieces_at_once; ++k)
#pragma unroll
        for (int i = 0; i < parts_in_flight; ++i) {
          const int next = group + (i << lanes);
          if (column[k] < count && next < groups)
            load_floats<width>(parts + std::int64_t{next} * ld + column[k], part[k][i]);
        }
#pragma unroll
      for (int k = 0; k < pieces_at_once; ++k)
#pragma unroll
        for (int i = 0; i < parts_in_flight; ++i)
#pragma unroll
          for (int j = 0; j < width; ++j) total[k][j] += part[k][i][j];
    }
    for (int bits = across; bits < warp_size; bits *= 2) {
#pragma unroll
      for (int k = 0; k < pieces_at_once; ++k)
#pragma unroll
        for (int j = 0; j < width; ++j) total[k][j] += __shfl_xor_sync(full_warp, total[k][j], bits);
    }
#pragma unroll
    for (int k = 0; k < pieces_at_once; ++k) {
      if (column[k] >= count || first > 0) continue;
#pragma unroll
      for (int j = 0; j < width; ++j) sum[k][j] += total[k][j];
      store_floats<width>(sum[k], to + column[k]);
    }
  }
};

// The sums of a call for a kernel. With a width of 4 all of them must be aligned.
template <int width = 4>
struct GroupSums {
  int count = 0;
  GroupSum<width> sum[most_late_sums];
};

template <int width = 4>
GroupSums<width> group_sums(const LateSums& late) {
  GroupSums<width> sums;
  for (; sums.count < late.count; ++sums.count) {
    const LateSum& from = late.sum[sums.count];
    GroupSum<width>& s = sums.sum[sums.count];
    s = {static_cast<const float*>(from.parts), static_cast<float*>(from.to), static_cast<int>(from.count),
         static_cast<int>(from.ld), from.groups};
    while (1 << s.lanes < warp_size && parts_in_flight << s.lanes < s.groups) ++s.lanes;
    s.pieces = static_cast<int>(blocks_for(s.count, width * (warp_size >> s.lanes)));
  }
  return sums;
}

// True if all parts and results can be read and written 16 bytes at a time.
inline bool are_aligned(const LateSums& sums) {
  bool aligned = true;
  for (int i = 0; i < sums.count; ++i) {
    const LateSum& s = sums.sum[i];
    aligned &= s.count % 4 == 0 && rows_are_aligned<float>(s.parts, s.ld) && rows_are_aligned<float>(s.to, 4);
  }
  return aligned;
}

// Those that a call adds for an earlier one.
inline GroupSums<> earlier_sums(const Context& context) {
  return context.earlier ? group_sums(*context.earlier) : GroupSums<>();
}

// Called by all threads of the blocks with blockIdx.y >= `first_row`, which consist of whole warps along x. The blocks
// take pieces in turn. Several at once wait less often; each needs 24 registers.
template <int pieces_at_once = 1, int width>
__device__ void add_sums(const GroupSums<width>& sums, unsigned first_row = 0) {
  const unsigned blocks = gridDim.x * (gridDim.y - first_row),
                 block = (blockIdx.y - first_row) * gridDim.x + blockIdx.x, warps = blockDim.x * blockDim.y / warp_size,
                 warp = (threadIdx.y * blockDim.x + threadIdx.x) / warp_size;
  const int step = static_cast<int>(warps * blocks);
  int piece = static_cast<int>(warp * blocks + block);
  for (int i = 0; i < sums.count; ++i) {
    const GroupSum<width>& s = sums.sum[i];
    for (; piece < s.pieces; piece += pieces_at_once * step) s.template add<pieces_at_once>(piece, step);
    while (piece - step >= s.pieces) piece -= step;  // the last ones may have been fewer
    piece -= s.pieces;
  }
}

// Adds the sums in a launch of their own.
Status launch_sums(const Context& context, const LateSums& sums);

}  // namespace comera::kernels::cuda
