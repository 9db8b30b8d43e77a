// Adds sums over groups (kernels/late_sums.h): in a kernel that has other work, or in a launch for them alone
// (late_sums.cu).
#pragma once

#include "kernels/cuda/common/vector.h"
#include "kernels/late_sums.h"

namespace comera::kernels::cuda {

constexpr int parts_in_flight = 4;  // that a thread loads before it adds the first one

// A warp adds one piece of the columns at a time, `width` columns in a lane. 2^lanes lanes share the groups, as few as
// load all of them at once, because lanes that have the same group read neighbouring columns. The number of groups
// fixes the order.
template <int width>
struct GroupSum {
  const float* parts = nullptr;
  float* to = nullptr;
  int count = 0, ld = 0, groups = 0, lanes = 0, pieces = 0;

  __device__ void add(int piece) const {
    const int lane = static_cast<int>(threadIdx.x) % warp_size, across = warp_size >> lanes,
              column = (piece * across + lane % across) * width, first = lane / across;
    const bool inside = column < count;
    float total[width] = {}, sum[width] = {};
    if (inside && first == 0) load_floats<width>(to + column, sum);  // in flight together with the parts
    for (int group = first; group < groups; group += parts_in_flight << lanes) {
      float part[parts_in_flight][width] = {};
#pragma unroll
      for (int i = 0; i < parts_in_flight; ++i) {
        const int next = group + (i << lanes);
        if (inside && next < groups) load_floats<width>(parts + std::int64_t{next} * ld + column, part[i]);
      }
#pragma unroll
      for (int i = 0; i < parts_in_flight; ++i)
#pragma unroll
        for (int j = 0; j < width; ++j) total[j] += part[i][j];
    }
    for (int bits = across; bits < warp_size; bits *= 2)
#pragma unroll
      for (int j = 0; j < width; ++j) total[j] += __shfl_xor_sync(full_warp, total[j], bits);
    if (!inside || first > 0) return;
#pragma unroll
    for (int j = 0; j < width; ++j) sum[j] += total[j];
    store_floats<width>(sum, to + column);
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

// Called by all threads of a grid. Its blocks consist of whole warps along x; they take pieces in turn.
template <int width>
__device__ void add_sums(const GroupSums<width>& sums) {
  const unsigned blocks = gridDim.x * gridDim.y, block = blockIdx.y * gridDim.x + blockIdx.x,
                 warps = blockDim.x * blockDim.y / warp_size,
                 warp = (threadIdx.y * blockDim.x + threadIdx.x) / warp_size;
  int piece = static_cast<int>(warp * blocks + block);
  for (int i = 0; i < sums.count; ++i) {
    const GroupSum<width>& s = sums.sum[i];
    for (; piece < s.pieces; piece += static_cast<int>(warps * blocks)) s.add(piece);
    piece -= s.pieces;
  }
}

// Adds the sums in a launch of their own.
Status launch_sums(const Context& context, const LateSums& sums);

}  // namespace comera::kernels::cuda
