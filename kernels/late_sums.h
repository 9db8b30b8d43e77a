// Sums whose parts a call leaves in memory, one for each group of tokens, and which a later call adds to the gradients.
// A kernel that adds them beside its own work takes the place of a launch. Whoever runs the calls holds the parts until
// then (lib/plan/walk.h). The order of the additions does not depend on the call that makes them.
#pragma once

#include "kernels/types.h"

namespace comera::kernels {

constexpr int most_late_sums = 8;

// to[i] += parts[0, i] + parts[1, i] + ...
struct LateSum {
  const void* parts = nullptr;  // [groups, count], rows `ld` elements apart
  void* to = nullptr;           // [count]
  std::int64_t count = 0, ld = 0;
  int groups = 0;
};

// As an op: adds them now.
struct LateSums {
  int count = 0;
  std::size_t bytes = 0;  // of the memory of the parts
  LateSum sum[most_late_sums];
};

constexpr double flops(const LateSums& a) {
  double additions = 0;
  for (int i = 0; i < a.count; ++i) additions += static_cast<double>(a.sum[i].count) * a.sum[i].groups;
  return additions;
}

}  // namespace comera::kernels
