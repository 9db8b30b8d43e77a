// A product of bf16 factors in 8-bit floats. Each factor is measured, scaled and written in the layout of the library,
// with the summed index along its rows. Bound by memory traffic: a factor is read twice and written at half its size.
#pragma once

#include "kernels/cuda/common/eights.h"
#include "kernels/cuda/common/fp8.h"
#include "kernels/cuda/common/gemm.h"
#include "kernels/cuda/common/reduce.h"
#include "kernels/cuda/common/workspace.h"

namespace comera::kernels::cuda {

constexpr unsigned fp8_threads = 256, fp8_parts = 256, fp8_tile = 32;

// A factor in its stored form.
struct WideFactor {
  const Bf16* data = nullptr;
  std::int64_t rows = 0, columns = 0, ld = 0;  // columns: a multiple of 16; rows begin at multiples of 16 bytes
};
struct NarrowFactor {
  std::uint8_t* codes = nullptr;
  std::uint32_t* largest = nullptr;  // [fp8_parts], bits of each part's largest magnitude; the bits of a NaN exceed all
  float* inverse = nullptr;          // of the scale
};

static __global__ void __launch_bounds__(fp8_threads)
    measure_factor(const WideFactor __grid_constant__ a, std::uint32_t* largest) {
  begin_kernel();
  const std::int64_t per_row = a.columns / 8;
  std::uint32_t own = 0;
  for (std::int64_t i = flat_index(); i < a.rows * per_row; i += flat_stride()) {
    const Eight x = get<Eight>(a.data + i / per_row * a.ld, i % per_row * 8, a.columns, true);
#pragma unroll
    for (int j = 0; j < 8; ++j) own = Larger{}(own, bits_of(x.v[j]) & 0x7FFFFFFFu);
  }
  own = reduce_block(own, 0u, Larger{});
  if (threadIdx.x == 0) largest[blockIdx.x] = own;
}

// The scale of a factor. Every thread of the block gets it; the first block writes its inverse, which is exact.
template <class Type>
__device__ float scale_of(const NarrowFactor& to) {
  std::uint32_t own = 0;
  for (unsigned i = threadIdx.x; i < fp8_parts; i += fp8_threads) own = Larger{}(own, to.largest[i]);
  const float scale = fp8_scale<Type>(reduce_block(own, 0u, Larger{}));
  if (blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0) *to.inverse = 1 / scale;
  return scale;
}

template <class Type>
__global__ void __launch_bounds__(fp8_threads)
    narrow_rows(const WideFactor __grid_constant__ a, const NarrowFactor __grid_constant__ to) {
  begin_kernel();
  const float scale = scale_of<Type>(to);
  const std::int64_t per_row = a.columns / 8;
  for (std::int64_t i = flat_index(); i < a.rows * per_row; i += flat_stride()) {
    const Eight x = get<Eight>(a.data + i / per_row * a.ld, i % per_row * 8, a.columns, true);
    std::uint64_t codes = 0;
#pragma unroll
    for (int j = 0; j < 8; ++j) codes |= static_cast<std::uint64_t>(to_fp8<Type>(x.v[j] * scale)) << (8 * j);
    reinterpret_cast<std::uint64_t*>(to.codes)[i] = codes;
  }
}

// Columns of the factor become rows of the codes; a block transposes one tile.
template <class Type>
__global__ void __launch_bounds__(fp8_threads)
    narrow_columns(const WideFactor __grid_constant__ a, const NarrowFactor __grid_constant__ to) {
  begin_kernel();
  __shared__ std::uint8_t tile[fp8_tile][fp8_tile + 1];
  const float scale = scale_of<Type>(to);
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.y) * fp8_tile,
                     column = static_cast<std::int64_t>(blockIdx.x) * fp8_tile;
  const unsigned x = threadIdx.x % fp8_tile;
  for (unsigned y = threadIdx.x / fp8_tile; y < fp8_tile; y += fp8_threads / fp8_tile)
    if (row + y < a.rows && column + x < a.columns)
      tile[y][x] = to_fp8<Type>(to_float(a.data[(row + y) * a.ld + column + x]) * scale);
  __syncthreads();
  for (unsigned y = threadIdx.x / fp8_tile; y < fp8_tile; y += fp8_threads / fp8_tile)
    if (column + y < a.columns && row + x < a.rows) to.codes[(column + y) * a.rows + row + x] = tile[x][y];
}

template <class Type>
Status narrow(const Context& context, const WideFactor& a, const NarrowFactor& to, bool turned) {
  const Status status = launch(context, {fp8_parts, fp8_threads}, measure_factor, a, to.largest);
  if (status != Status::ok) return status;
  const dim3 tiles(grid_for(a.columns, fp8_tile), static_cast<unsigned>(blocks_for(a.rows, fp8_tile)));
  return turned ? launch(context, {tiles, fp8_threads}, narrow_columns<Type>, a, to)
                : launch(context, {grid_for(a.rows * (a.columns / 8), fp8_threads), fp8_threads}, narrow_rows<Type>, a,
                         to);
}

// Memory for the factors of products up to these sizes; none if the call does not use 8-bit floats.
struct Fp8Room {
  NarrowFactor a, b;

  Fp8Room() = default;
  Fp8Room(const Context& context, Parts& parts, std::int64_t a_elements, std::int64_t b_elements) {
    if (!context.fp8) return;
    for (NarrowFactor* factor : {&a, &b}) {
      factor->codes = parts.take<std::uint8_t>(factor == &a ? a_elements : b_elements);
      factor->largest = parts.take<std::uint32_t>(fp8_parts);
      factor->inverse = parts.take<float>(1);
    }
  }
};

// The library reads whole vectors of both factors and sums 16 products at a time.
inline bool fp8_fits(const Context& context, const Gemm& g) {
  return context.fp8 && g.in == DType::bf16 && g.out == DType::bf16 && !g.transpose_a && g.batch == 1 && g.m > 0 &&
         g.n > 0 && g.k > 0 && g.k % 16 == 0 && g.n % 16 == 0 &&
         blocks_for(g.transpose_b ? g.n : g.k, fp8_tile) <= 65535 && rows_are_aligned<Bf16>(g.a, g.lda) &&
         rows_are_aligned<Bf16>(g.b, g.ldb) && rows_are_aligned<Bf16>(g.c, g.ldc);
}

// c = a b or c += a b in 8-bit floats, if context.fp8 is set and shape and library support it; else in bf16. a is
// activations or (e5m2) their gradients, b is a weight.
template <class TypeOfA>
Status product(const Context& context, const Gemm& wide, const Fp8Room& room, void* workspace) {
  if (!fp8_fits(context, wide)) return gemm(context, wide, workspace);
  Gemm g = wide;
  Status status = narrow<TypeOfA>(context, {static_cast<const Bf16*>(g.a), g.m, g.k, g.lda}, room.a, false);
  if (status != Status::ok) return status;
  const std::int64_t rows = g.transpose_b ? g.n : g.k, columns = g.transpose_b ? g.k : g.n;
  status = narrow<E4m3>(context, {static_cast<const Bf16*>(g.b), rows, columns, g.ldb}, room.b, !g.transpose_b);
  if (status != Status::ok) return status;
  g.a = room.a.codes, g.lda = g.k, g.b = room.b.codes, g.ldb = g.k, g.transpose_b = true;
  g.a_scale = room.a.inverse, g.b_scale = room.b.inverse, g.a_is_e5m2 = TypeOfA::fraction == 2;
  status = gemm(context, g, workspace);
  return status == Status::unsupported_shape ? gemm(context, wide, workspace) : status;
}

}  // namespace comera::kernels::cuda
