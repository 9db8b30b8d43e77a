// Random projections: four neighbouring columns of a row per thread.
#include "kernels/cuda/common/element.h"
#include "kernels/cuda/common/runtime.h"
#include "kernels/cuda/ops.h"
#include "kernels/sketch.h"

namespace comera::kernels::cuda {
namespace {

constexpr int threads = 256;

// Bound by arithmetic: some 60 integer instructions for four normal entries, some hundreds for four orthonormal ones.
template <class T>
__global__ void __launch_bounds__(threads) draw(const DrawSketch a) {
  begin_kernel();
  const SketchRule rule(a);
  const std::int64_t n = a.sketch.inputs, r = a.sketch.rank, blocks = (r + 3) / 4;
  T* const p = static_cast<T*>(a.p);
  for (std::int64_t i = flat_index(); i < n * blocks; i += flat_stride()) {
    // Neighbouring threads write neighbouring addresses in either order.
    const std::int64_t row = a.transposed ? i % n : i / blocks, block = a.transposed ? i / n : i % blocks;
    const bool orthonormal = a.sketch.kind == SketchKind::orthonormal;
    float four[4];
    if (!orthonormal) rule.four(row, block, four);
    const float sign = orthonormal ? rule.sign(row) : 0;
    for (int j = 0; j < 4; ++j) {
      const std::int64_t column = 4 * block + j;
      if (column >= r) break;
      const float entry = orthonormal ? rule.entry(row, rule.frequency(column), sign) : four[j];
      p[a.transposed ? column * n + row : row * r + column] = to_element<T>(entry);
    }
  }
}

Status run(const Context& context, const DrawSketch& a) {
  const std::int64_t blocks = a.sketch.inputs * ((a.sketch.rank + 3) / 4);
  return with_element(context, [&]<class T>(T) {
    return launch(context, {grid_for(blocks, threads), threads}, draw<T>, a);
  });
}

}  // namespace

void bind(Op<DrawSketch>& op) { op.run = run; }

}  // namespace comera::kernels::cuda
