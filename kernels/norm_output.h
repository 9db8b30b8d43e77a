// The input of a norm from its output (kernels/norm.h), so that only the output is kept, which the next layer keeps
// anyway (MS-LayerNorm and MS-RMSNorm: arXiv 2406.16282; here without merging the gain into the next weight):
//   s = (y - shift) / (gain rstd) + mean
// The division multiplies the rounding of y by |y| / |gain|, so the columns with the smallest gains relative to their
// shifts are kept from the input.
#pragma once

#include "kernels/group_codes.h"
#include "kernels/norm.h"

namespace comera::kernels {

// Number of columns that are kept from the input.
constexpr std::int64_t picked_columns(std::int64_t columns) { return (columns + 31) / 32; }

// places: the picked_columns(N) columns with the smallest |gain| / (|gain| + |shift|), without a shift |gain|; the
// first of equal ones; ascending. values: these columns of s.
struct NormPick {
  std::int64_t tokens = 0, columns = 0;  // K, N
  const void* sum = nullptr;             // s [K, N]
  const void* gain = nullptr;            // [N]
  const void* shift = nullptr;           // [N], optional
  std::int32_t* places = nullptr;        // [C]
  void* values = nullptr;                // [K, C]
};

// A gain of 0 in another column gives a number that is not finite.
struct NormRestore {
  std::int64_t tokens = 0, columns = 0;
  const void* y = nullptr;      // [K, N], without output dropout
  const void* mean = nullptr;   // [K], optional (rms has none)
  const void* rstd = nullptr;   // [K]
  const void* gain = nullptr;   // [N]
  const void* shift = nullptr;  // [N], optional
  const std::int32_t* places = nullptr;
  const void* values = nullptr;
  void* sum = nullptr;  // s [K, N]; may be y
};

// The backward of the norm from its output: a row of s exists only while it is read. The same bytes as those of a
// GroupRestore where y is in codes, a NormRestore and a NormBackward.
struct NormOutputBackward {
  NormBackward norm;  // norm.sum is not read
  NormRestore input;  // input.sum is not written; input.y null: coded
  CodedRows coded;    // y
};

constexpr double flops(const NormPick&) { return 0; }
constexpr double flops(const NormRestore& a) { return 4.0 * a.tokens * a.columns; }
constexpr double flops(const NormOutputBackward& a) { return flops(a.norm) + flops(a.input); }

}  // namespace comera::kernels
