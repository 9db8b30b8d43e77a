// Parameters in the type of the stream: dense weights as products read them.
#pragma once

#include "kernels/types.h"

namespace comera::kernels {

struct CastTensor {
  std::int64_t count = 0;
  const void* from = nullptr;  // a parameter
  void* to = nullptr;          // of the call's type, rounded to nearest, ties to even
};
// All tensors in one call; where stream and parameters are of one type, a copy.
struct Cast {
  const CastTensor* tensors = nullptr;  // host memory
  int count = 0;
};

constexpr double flops(const Cast&) { return 0; }

}  // namespace comera::kernels
