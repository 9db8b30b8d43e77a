// Writes blocks of rows past or through the caches, one copy per instruction set.
#pragma once

#include <cstdint>

namespace comera::kernels {

// y [rows, columns] at ldy = x [rows of a tile, columns], repeated.
using WriteRows = void (*)(bool streaming, std::int64_t rows, std::int64_t columns, const float* x, float* y,
                           std::int64_t ldy);

namespace cpu_v3 {
void write_rows(bool streaming, std::int64_t rows, std::int64_t columns, const float* x, float* y, std::int64_t ldy);
}
namespace cpu_v4 {
void write_rows(bool streaming, std::int64_t rows, std::int64_t columns, const float* x, float* y, std::int64_t ldy);
}

}  // namespace comera::kernels
