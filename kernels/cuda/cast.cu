// Casts f32 tensors to the activation dtype, many tensors in one launch.
#include "kernels/cast.h"
#include "kernels/cuda/common/eights.h"
#include "kernels/cuda/common/many_tensors.h"
#include "kernels/cuda/ops.h"

namespace comera::kernels::cuda {
namespace {

constexpr int threads = 256;
constexpr std::int64_t cast_tile = 8192;  // elements of a block

template <class T>
struct CastTile {
  __device__ void operator()(const CastTensor& t, std::int64_t begin, std::int64_t end, std::uint32_t) const {
    const auto* from = static_cast<const float*>(t.from);
    auto* to = static_cast<T*>(t.to);
    const bool aligned = begin_aligned(from, to);
    for (std::int64_t i = begin + 8 * threadIdx.x; i < end; i += 8 * threads)
      put(to, i, end, aligned, get<Eight>(from, i, end, aligned));
  }
};

// Bound by memory traffic: per number 4 bytes read and sizeof(T) written.
template <class T>
__global__ void __launch_bounds__(threads) cast(const TensorBatch<CastTensor> __grid_constant__ batch) {
  begin_kernel();
  for_tiles(batch, cast_tile, CastTile<T>{});
}

Status run(const Context& context, const Cast& a) {
  return with_element(context, [&]<class T>(T) {
    return for_batches(a.tensors, a.count, cast_tile, [&](const TensorBatch<CastTensor>& batch, std::int64_t) {
      return launch(context, {grid_for(batch.tiles, 1), threads}, cast<T>, batch);
    });
  });
}

}  // namespace

void bind(Op<Cast>& op) { op.run = run; }

}  // namespace comera::kernels::cuda
