#include "tests/kernels/simd/stream_probe.h"

#include "kernels/cpu/common/stream.h"

namespace comera::kernels::COMERA_CPU {

// Writes tiles of 64 rows in panels of 128 columns, as the kernels do.
void write_rows(bool streaming, std::int64_t rows, std::int64_t columns, const float* x, float* y, std::int64_t ldy) {
  for (std::int64_t row = 0; row < rows; row += 64)
    for (std::int64_t j = 0; j < columns; j += 128)
      write_block(streaming, min<std::int64_t>(64, rows - row), min<std::int64_t>(128, columns - j), x + j, columns,
                  y + row * ldy + j, ldy);
}

}  // namespace comera::kernels::COMERA_CPU
