// Outputs of a TT layer with a shared wide left factor, as the tests describe them.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/chain.h"
#include "kernels/tt_linear.h"

namespace comera::kernels::test {

struct OutputShape {
  std::int64_t out, rank;  // rank without padding
  bool bias = true;
};

// Columns of the wide left factor.
inline std::int64_t width_of(const std::vector<OutputShape>& outputs) {
  std::int64_t sum = 0;
  for (const OutputShape& o : outputs) sum += padded_rank(o.rank);
  return sum;
}

}  // namespace comera::kernels::test
