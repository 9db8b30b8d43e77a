// Non-temporal stores that bypass the caches, for outputs too large to stay in them.
#pragma once

#include "kernels/cpu/common/element.h"

namespace comera::kernels::COMERA_CPU {

// Outputs of at least this size bypass the caches, because they would not stay there. This saves the reads of their
// cache lines before the writes.
constexpr std::int64_t streamed_from = (8 << 20) / sizeof(Element);  // numbers

// Writes a row of `columns` numbers, vector after vector in their order. The whole cache lines of a row that begins at
// a cache line are streamed, if `streaming` is set. A line that is partly streamed and partly stored costs many times a
// plain store. Rows that begin within a line were streamed 1.2 to 1.8 times slower than stored on an EPYC 7003.
template <class T, bool streaming>
class RowWriter {
 public:
  RowWriter(T* row, std::int64_t columns) : row_(row) {
    constexpr std::int64_t line = 64 / sizeof(T);
    if (streaming && reinterpret_cast<std::uintptr_t>(row) % 64 == 0) whole_ = columns / line * line;
  }
  void write(std::int64_t j, F x, std::int64_t lanes) {
    if (!streaming || j + F::width > whole_) return store(row_ + j, x, lanes);
    stream(row_ + j, x);
  }

 private:
  static void stream(float* p, F x) {
#if defined(__AVX512F__)
    _mm512_stream_ps(p, x.v);
#else
    _mm256_stream_ps(p, x.v);
#endif
  }
#if defined(COMERA_BF16_CALLS)
  // A line of bf16 is two vectors; the first waits for the second.
  void stream(Bf16* p, F x) {
    if ((p - row_) % (2 * F::width) == 0) {
      first_ = x;
      return;
    }
    const auto line = __builtin_bit_cast(__m512i, _mm512_cvtne2ps_pbh(x.v, first_.v));
    _mm512_stream_si512(reinterpret_cast<__m512i*>(p - F::width), line);
  }
  F first_;
#endif

  T* row_;
  std::int64_t whole_ = 0;
};

// Makes the streamed stores visible to other threads.
inline void finish_streaming() { _mm_sfence(); }

// y = x for a block of rows.
template <bool streaming, class Y>
void copy_rows(std::int64_t rows, std::int64_t columns, const float* x, std::int64_t ldx, Y* y, std::int64_t ldy) {
  for (std::int64_t i = 0; i < rows; ++i) {
    RowWriter<Y, streaming> to(y + i * ldy, columns);
    for (std::int64_t j = 0; j < columns; j += F::width) {
      const std::int64_t lanes = min<std::int64_t>(F::width, columns - j);
      to.write(j, load(x + i * ldx + j, lanes), lanes);
    }
  }
  if constexpr (streaming) finish_streaming();
}

// The same; bypasses the caches if `streaming` is set.
template <class Y>
void write_block(bool streaming, std::int64_t rows, std::int64_t columns, const float* x, std::int64_t ldx, Y* y,
                 std::int64_t ldy) {
  streaming ? copy_rows<true>(rows, columns, x, ldx, y, ldy) : copy_rows<false>(rows, columns, x, ldx, y, ldy);
}

}  // namespace comera::kernels::COMERA_CPU
