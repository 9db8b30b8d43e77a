// Conversion of parameters to the activation dtype: products read dense weights in this form.
#pragma once

#include "kernels/types.h"

namespace comera::kernels {

struct CastTensor {
  std::int64_t count = 0;
  const void* from = nullptr;  // a parameter
  void* to = nullptr;          // of the activation dtype, rounded to nearest, ties to even
};
// Converts all tensors in one call. If both types are equal, this is a copy.
struct Cast {
  const CastTensor* tensors = nullptr;  // host memory
  int count = 0;
};

constexpr double flops(const Cast&) { return 0; }

}  // namespace comera::kernels
