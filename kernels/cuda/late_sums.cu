// Sums over groups that no other kernel adds.
#include "kernels/cuda/common/group_sums.h"
#include "kernels/cuda/ops.h"

namespace comera::kernels::cuda {
namespace {

constexpr unsigned sum_threads = 256;

template <int width>
__global__ void __launch_bounds__(sum_threads) add_late_sums(const GroupSums<width> __grid_constant__ sums) {
  begin_kernel();
  add_sums(sums);
}

template <int width>
Status launch_as(const Context& context, const LateSums& late) {
  const GroupSums<width> sums = group_sums<width>(late);
  std::int64_t pieces = 0;
  for (int i = 0; i < sums.count; ++i) pieces += sums.sum[i].pieces;
  return launch(context, {grid_for(pieces, sum_threads / warp_size), sum_threads}, add_late_sums<width>, sums);
}

}  // namespace

Status launch_sums(const Context& context, const LateSums& sums) {
  return are_aligned(sums) ? launch_as<4>(context, sums) : launch_as<1>(context, sums);
}

void bind(Op<LateSums>& op) { op.run = launch_sums; }

}  // namespace comera::kernels::cuda
