// Non-temporal stores that bypass the caches, for outputs too large to stay in them.
#pragma once

#include "kernels/cpu/common/simd.h"

namespace comera::kernels::COMERA_CPU {

// Outputs of at least this size bypass the caches, because they would not stay there. This saves the reads of their
// cache lines before the writes.
constexpr std::int64_t streamed_from = 2 << 20;  // floats

// The whole cache lines of a row of `columns` floats that begins at a cache line; else empty. A line that is partly
// streamed and partly stored costs many times a plain store. Rows that begin within a line were streamed 1.2 to 1.8
// times slower than stored on an EPYC 7003.
struct WholeLines {
  const float *first, *last;

  WholeLines(const float* row, std::int64_t columns) : first(row), last(row) {
    constexpr std::int64_t line = 64 / sizeof(float);
    if (reinterpret_cast<std::uintptr_t>(row) % 64 == 0) last = row + columns / line * line;
  }
  bool hold(const float* p) const { return p >= first && p + F::width <= last; }
};

// Stores one vector of the row of `lines`.
inline void stream(const WholeLines& lines, float* p, F x, std::int64_t lanes) {
  if (!lines.hold(p)) return store(p, x, lanes);
#if defined(__AVX512F__)
  _mm512_stream_ps(p, x.v);
#else
  _mm256_stream_ps(p, x.v);
#endif
}
// Makes the streamed stores visible to other threads.
inline void finish_streaming() { _mm_sfence(); }

// y = x for a block of rows; bypasses the caches if `streaming` is set.
inline void write_block(bool streaming, std::int64_t rows, std::int64_t columns, const float* x, std::int64_t ldx,
                        float* y, std::int64_t ldy) {
  for (std::int64_t i = 0; i < rows; ++i) {
    const WholeLines lines(y + i * ldy, columns);
    for (std::int64_t j = 0; j < columns; j += F::width) {
      const std::int64_t lanes = min<std::int64_t>(F::width, columns - j);
      const F value = load(x + i * ldx + j, lanes);
      streaming ? stream(lines, y + i * ldy + j, value, lanes) : store(y + i * ldy + j, value, lanes);
    }
  }
  if (streaming) finish_streaming();
}

}  // namespace comera::kernels::COMERA_CPU
