// A warp's 32 x 32 tile of a product, from shared memory: bf16 on tensor cores (mma.sync, m16n8k16), f32 by fused
// multiply-adds. In both cases a lane holds the same elements: of each 16 x 8 block, rows lane / 4 and lane / 4 + 8,
// columns 2 (lane % 4) and the next.
#pragma once

#include "kernels/cuda/common/vector.h"
#ifndef __CUDACC__
#include "kernels/cuda/emulator/matrix_words.h"
#endif

namespace comera::kernels::cuda {

constexpr int warp_tile = 32;

#ifdef __CUDACC__
// Copies 16 bytes to shared memory, or zeros if not `valid`. The copy is complete after wait_for_copies() of its
// group.
__device__ __forceinline__ void copy_async(void* shared, const void* from, bool valid) {
  const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(valid ? 16 : 0) : "memory");
}
__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits for all groups of this thread's copies except the `latest` newest ones.
template <int latest>
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(latest) : "memory");
}

// Loads four 8 x 8 blocks: lane i passes the address of row i % 8 of block i / 8.
__device__ __forceinline__ void load_blocks(unsigned (&block)[4], const Bf16* row) {
  const unsigned from = static_cast<unsigned>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(block[0]), "=r"(block[1]), "=r"(block[2]), "=r"(block[3])
               : "r"(from)
               : "memory");
}
__device__ __forceinline__ void load_blocks_transposed(unsigned (&block)[4], const Bf16* row) {
  const unsigned from = static_cast<unsigned>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(block[0]), "=r"(block[1]), "=r"(block[2]), "=r"(block[3])
               : "r"(from)
               : "memory");
}
// c += a b, of 16 x 16 and 16 x 8
__device__ __forceinline__ void multiply_add(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
#else
using emulator::commit_copies;
using emulator::copy_async;
using emulator::load_blocks;
using emulator::load_blocks_transposed;
using emulator::multiply_add;
using emulator::wait_for_copies;
#endif

// Starts copies of `rows` rows of `wide` vectors of 16 bytes to shared memory: those of the first `rows_left` rows and
// `columns_left` columns, zeros otherwise. A thread stays in one column, so that its next address is a sum.
template <int rows, int wide, int pitch, int threads, class T>
__device__ __forceinline__ void copy_rows(T* to, const T* from, std::int64_t ld, std::int64_t rows_left,
                                          int columns_left, int thread = static_cast<int>(threadIdx.x)) {
  static_assert(threads % wide == 0);
  constexpr int lanes = 16 / static_cast<int>(sizeof(T)), step = threads / wide;
  const int row = thread / wide, column = thread % wide * lanes;
  const int left = column < columns_left ? static_cast<int>(rows_left < rows ? rows_left : rows) : 0;
  const T* source = from + row * ld + column;
#pragma unroll
  for (int r = 0; r < rows; r += step, source += step * ld)
    if (rows % step == 0 || r + row < rows)
      copy_async(to + (r + row) * pitch + column, r + row < left ? source : from, r + row < left);
}

struct WarpTile {
  float c[2][4][4];  // [16 rows][8 columns][element]

  __device__ void clear() {
    for (auto& rows : c)
      for (auto& block : rows)
        for (float& x : block) x = 0;
  }
  // f(element, `first` + its number among the lane's 32)
  template <class F>
  __device__ void for_each(int first, const F& f) {
#pragma unroll
    for (int i = 0; i < 32; ++i) f(c[i / 16][i / 4 % 4][i % 4], first + i);
  }
  // f(row, column, element, next element of the row)
  template <class F>
  __device__ void for_pairs(F f) const {
    const int lane = static_cast<int>(threadIdx.x) % warp_size;
#pragma unroll
    for (int m = 0; m < 2; ++m)
#pragma unroll
      for (int n = 0; n < 4; ++n)
#pragma unroll
        for (int half = 0; half < 2; ++half)
          f(16 * m + 8 * half + lane / 4, 8 * n + lane % 4 * 2, c[m][n][2 * half], c[m][n][2 * half + 1]);
  }
};

// The inner dimension must be a multiple of this.
template <class T>
constexpr int inner_step = sizeof(T) == 2 ? 16 : 4;

// tile += a b, from shared memory. a has 32 rows with pitch `lda`; b has `depth` rows with pitch `ldb`. Rows of bf16
// begin at multiples of 16 bytes. b transposed: 32 rows with pitch `ldb`, one per column of the tile.
template <bool transposed>
__device__ void multiply(WarpTile& tile, const Bf16* a, int lda, const Bf16* b, int ldb, int depth) {
  const int lane = static_cast<int>(threadIdx.x) % warp_size, row = lane % 16, column = lane / 16 * 8;
  for (int k = 0; k < depth; k += 16) {
    unsigned rows[2][4], columns[2][4];
#pragma unroll
    for (int m = 0; m < 2; ++m) load_blocks(rows[m], a + (16 * m + row) * lda + k + column);
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      if constexpr (transposed) {
        load_blocks(columns[n], b + (16 * n + lane / 16 * 8 + lane % 8) * ldb + k + lane / 8 % 2 * 8);
      } else {
        load_blocks_transposed(columns[n], b + (k + row) * ldb + 16 * n + column);
      }
    }
#pragma unroll
    for (int m = 0; m < 2; ++m)
#pragma unroll
      for (int n = 0; n < 4; ++n)
        multiply_add(tile.c[m][n], rows[m], columns[n / 2][n % 2 * 2], columns[n / 2][n % 2 * 2 + 1]);
  }
}

template <bool transposed>
__device__ void multiply(WarpTile& tile, const float* a, int lda, const float* b, int ldb, int depth) {
  const int lane = static_cast<int>(threadIdx.x) % warp_size, row = lane / 4, column = lane % 4 * 2;
#pragma unroll 4
  for (int k = 0; k < depth; ++k) {
    float rows[4], columns[4][2];
#pragma unroll
    for (int m = 0; m < 4; ++m) rows[m] = a[(8 * m + row) * lda + k];
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      if constexpr (transposed) {
        columns[n][0] = b[(8 * n + column) * ldb + k];
        columns[n][1] = b[(8 * n + column + 1) * ldb + k];
      } else {
        load_floats<2>(b + k * ldb + 8 * n + column, columns[n]);
      }
    }
#pragma unroll
    for (int m = 0; m < 4; ++m)
#pragma unroll
      for (int n = 0; n < 4; ++n)
#pragma unroll
        for (int j = 0; j < 2; ++j) tile.c[m / 2][n][m % 2 * 2 + j] += rows[m] * columns[n][j];
  }
}

// tile += a^T b, from shared memory. a and b have `depth` rows of 32 with pitch `lda` and `ldb`. Rows of bf16 begin at
// multiples of 16 bytes.
__device__ inline void multiply_turned(WarpTile& tile, const Bf16* a, int lda, const Bf16* b, int ldb, int depth) {
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  for (int k = 0; k < depth; k += 16) {
    unsigned rows[2][4], columns[2][4];
#pragma unroll
    for (int m = 0; m < 2; ++m)
      load_blocks_transposed(rows[m], a + (k + lane / 16 * 8 + lane % 8) * lda + 16 * m + lane / 8 % 2 * 8);
#pragma unroll
    for (int n = 0; n < 2; ++n) load_blocks_transposed(columns[n], b + (k + lane % 16) * ldb + 16 * n + lane / 16 * 8);
#pragma unroll
    for (int m = 0; m < 2; ++m)
#pragma unroll
      for (int n = 0; n < 4; ++n)
        multiply_add(tile.c[m][n], rows[m], columns[n / 2][n % 2 * 2], columns[n / 2][n % 2 * 2 + 1]);
  }
}

__device__ inline void multiply_turned(WarpTile& tile, const float* a, int lda, const float* b, int ldb, int depth) {
  const int lane = static_cast<int>(threadIdx.x) % warp_size, row = lane / 4, column = lane % 4 * 2;
#pragma unroll 4
  for (int k = 0; k < depth; ++k) {
    float rows[4], columns[4][2];
#pragma unroll
    for (int m = 0; m < 4; ++m) rows[m] = a[k * lda + 8 * m + row];
#pragma unroll
    for (int n = 0; n < 4; ++n) load_floats<2>(b + k * ldb + 8 * n + column, columns[n]);
#pragma unroll
    for (int m = 0; m < 4; ++m)
#pragma unroll
      for (int n = 0; n < 4; ++n)
#pragma unroll
        for (int j = 0; j < 2; ++j) tile.c[m / 2][n][m % 2 * 2 + j] += rows[m] * columns[n][j];
  }
}

struct NoWork {
  __device__ void operator()() const {}
};

// Passes chunks 0 .. count - 1 through `stages` buffers of shared memory; later chunks are copied while earlier ones
// are used. fetch(chunk, place) starts a thread's copies. use(chunk, place) runs when they are complete for every
// thread of the block. meanwhile() is other work, done while the first chunks arrive. On return no copy is pending and
// all threads are synchronised.
template <int stages, class Fetch, class Use, class Meanwhile = NoWork>
__device__ void for_chunks(int count, const Fetch& fetch, const Use& use, const Meanwhile& meanwhile = {}) {
  for (int s = 0; s + 1 < stages; ++s) {
    if (s < count) fetch(s, s);
    commit_copies();
  }
  meanwhile();
  for (int c = 0; c < count; ++c) {
    wait_for_copies<stages - 2>();
    __syncthreads();  // the chunk is complete for all threads, and no thread reads the previous one
    const int next = c + stages - 1;
    if (next < count) fetch(next, next % stages);
    commit_copies();
    use(c, c % stages);
  }
  wait_for_copies<0>();
  __syncthreads();
}

}  // namespace comera::kernels::cuda
