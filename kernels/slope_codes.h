// Two bits per element for the slope of an activation, in place of its input (ReGELU2 and ReSiLU2: Yang et al. 2024,
// arXiv 2406.16282; Novikov et al. 2022, "Few-Bit Backward", arXiv 2202.00441):
//   code = (x > cut_0) + (x > cut_1) + (x > cut_2), act'(x) ~ slope_code.
// Four codes per byte, the first column in the lowest bits; a row begins with a new byte and ends with zeros. The code
// of NaN is 0.
#pragma once

#include "kernels/types.h"

namespace comera::kernels {

constexpr float smallest_cut = 0x1p-126f;

struct SlopeTable {
  // Ascending, normal numbers: a subnormal x counts as 0 on some backends, so a cut of 0 is given as smallest_cut.
  float cut[3] = {};
  float slope[4] = {};
};

constexpr std::int64_t slope_row_bytes(std::int64_t columns) { return (columns + 3) / 4; }

struct SlopeEncode {
  std::int64_t rows = 0, columns = 0;  // K, N
  SlopeTable table;
  const void* x = nullptr;        // [K, N]
  std::uint8_t* codes = nullptr;  // [K, slope_row_bytes(N)]
};

// dx = dy * slope_code; dx may be dy.
struct SlopeApply {
  std::int64_t rows = 0, columns = 0;
  SlopeTable table;
  const std::uint8_t* codes = nullptr;
  const void* dy = nullptr;  // [K, N]
  void* dx = nullptr;        // [K, N]
};

constexpr double flops(const SlopeEncode&) { return 0; }
constexpr double flops(const SlopeApply& a) { return 1.0 * a.rows * a.columns; }

}  // namespace comera::kernels
