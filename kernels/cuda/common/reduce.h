// Sums and maxima over a warp and over a block. The number of threads fixes the order.
#pragma once

#include "kernels/cuda/common/device.h"

namespace comera::kernels::cuda {

// Every lane gets the result.
template <class T, class Join>
__device__ T reduce_warp(T value, Join join) {
  for (int bits = warp_size / 2; bits > 0; bits /= 2) value = join(value, __shfl_xor_sync(full_warp, value, bits));
  return value;
}

struct Add {
  template <class T>
  COMERA_DEVICE T operator()(const T& a, const T& b) const {
    return a + b;
  }
};
struct Larger {
  template <class T>
  COMERA_DEVICE T operator()(const T& a, const T& b) const {
    return a < b ? b : a;
  }
};

template <class T>
__device__ T sum_of_warp(T value) {
  return reduce_warp(value, Add{});
}

// Every thread of the block gets the result. The block is one-dimensional and consists of whole warps; all its threads
// must call this.
template <class T, class Join>
__device__ T reduce_block(T value, T neutral, Join join) {
  __shared__ T parts[warp_size];
  const int lane = threadIdx.x % warp_size, warp = threadIdx.x / warp_size, warps = blockDim.x / warp_size;
  value = reduce_warp(value, join);
  __syncthreads();  // other threads may still read the parts of the previous call
  if (lane == 0) parts[warp] = value;
  __syncthreads();
  return reduce_warp(lane < warps ? parts[lane] : neutral, join);
}

template <class T>
__device__ T sum_of_block(T value) {
  return reduce_block(value, T(0), Add{});
}

// As sum_of_block, for several values at once: the shuffles of one do not wait for those of another.
template <class T, int count>
__device__ void sums_of_block(T (&values)[count]) {
  __shared__ T parts[count][warp_size];
  const int lane = threadIdx.x % warp_size, warp = threadIdx.x / warp_size, warps = blockDim.x / warp_size;
  const auto add_lanes = [&] {
#pragma unroll
    for (int bits = warp_size / 2; bits > 0; bits /= 2)
#pragma unroll
      for (T& value : values) value += __shfl_xor_sync(full_warp, value, bits);
  };
  add_lanes();
  __syncthreads();  // other threads may still read the parts of the previous call
#pragma unroll
  for (int i = 0; i < count; ++i)
    if (lane == 0) parts[i][warp] = values[i];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < count; ++i) values[i] = lane < warps ? parts[i][lane] : T(0);
  add_lanes();
}

}  // namespace comera::kernels::cuda
