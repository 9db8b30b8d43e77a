// Times single kernels on their own, at the shapes of a transformer 768 wide, against the machine's measured rates.
#pragma once

#include <string>
#include <vector>

#include "lib/plan/walk.h"
#include "lib/report/output/table.h"

namespace comera::report {

struct KernelTime {
  std::string op, shape;
  double microseconds = 0;
  double bytes = 0, flops = 0;  // every operand once; multiplications and additions
};

// On a device each call is repeated in a graph, so that the host's time does not count. `tokens`: of most calls.
// Throws RunError with the op's name if a call fails.
std::vector<KernelTime> time_kernels(const plan::Machine& machine, std::int64_t tokens);

// One row per kernel: bytes, microseconds and the share of its bound, which is the longer of the times for its bytes
// and its FLOPs at these rates. A row that is faster has no share: its bytes were in a cache.
Table kernel_table(const std::vector<KernelTime>& times, double copy_gb_per_s, double peak_gflops);

}  // namespace comera::report
