// The ids of look-ups (kernels/embedding.h, kernels/ttm_embedding.h).
#pragma once

#include "kernels/types.h"

namespace comera::kernels {

// Bag b sums the rows ids[offsets[b]] .. ids[offsets[b+1] - 1], each times its weight. Without offsets, bag b is row
// ids[b]; offsets[0] is 0. Ids behind the last bag are not used, so a batch may have fewer ids than places.
struct Bags {
  std::int64_t bags = 0;
  std::int64_t ids = 0;  // length of `id`
  const std::int32_t* id = nullptr;
  const std::int32_t* offsets = nullptr;  // [bags + 1], optional
  // Period of repeated bags of one: id[i] == id[i % period], and the first `period` ids are distinct. 0: unknown.
  std::int64_t period = 0;
  // f32 [ids] in every call, optional, with offsets only: 1 / (size of the bag) makes means of the sums.
  const float* weights = nullptr;
};

}  // namespace comera::kernels
