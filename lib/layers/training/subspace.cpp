#include "lib/layers/training/subspace.h"

#include "kernels/cast.h"
#include "kernels/linear.h"
#include "lib/layers/training/name_hash.h"

namespace comera::layers {

std::uint32_t site_of(const std::string& name) { return static_cast<std::uint32_t>(name_hash(name)); }

Tensor project(Walk& walk, const Tensor& x, const kernels::Sketch& sketch, const kernels::StepScalars* scalars) {
  const std::int64_t tokens = x.elements() / sketch.inputs;
  if (sketch.kind == kernels::SketchKind::count && walk.backend().sketch_columns.run != nullptr) {
    const Tensor z = walk.make("projected", {tokens, sketch.rank});
    walk.run(walk.backend().sketch_columns,
             kernels::SketchColumns{.sketch = sketch, .scalars = scalars, .tokens = tokens, .x = x.data, .z = z.data});
    return z;
  }
  Tensor p = walk.make("sketch", {sketch.inputs, sketch.rank});
  walk.run(walk.backend().draw_sketch, kernels::DrawSketch{.sketch = sketch, .scalars = scalars, .p = p.data});
  const Tensor z = walk.make("projected", {tokens, sketch.rank});
  walk.run(walk.backend().linear_forward, kernels::LinearForward{.tokens = tokens,
                                                                 .in = sketch.inputs,
                                                                 .out = sketch.rank,
                                                                 .x = x.data,
                                                                 .ldx = sketch.inputs,
                                                                 .weight = p.data,
                                                                 .y = z.data,
                                                                 .ldy = sketch.rank});
  walk.drop(p);
  return z;
}

void lift(Walk& walk, const Subspace& subspace, const kernels::StepScalars* scalars, const Tensor& t,
          const Tensor& result) {
  const kernels::Sketch& sketch = subspace.sketch;
  const std::int64_t out = t.elements() / sketch.rank;
  if (sketch.kind == kernels::SketchKind::count && walk.backend().sketch_rows.run != nullptr)
    return walk.run(walk.backend().sketch_rows, kernels::SketchRows{.sketch = sketch,
                                                                    .scale = subspace.scale,
                                                                    .scalars = scalars,
                                                                    .out = out,
                                                                    .t = t.data,
                                                                    .result = result.data});
  // The product reads its factors in the activation dtype.
  Tensor factor = t.dtype == walk.dtype() ? walk.keep(t) : walk.make("update", t.shape);
  if (t.dtype != walk.dtype()) {
    const kernels::CastTensor cast{t.elements(), t.data, factor.data};
    walk.run(walk.backend().cast, kernels::Cast{&cast, 1});
  }
  Tensor p = walk.make("sketch", {sketch.rank, sketch.inputs});
  walk.run(walk.backend().draw_sketch,
           kernels::DrawSketch{
               .sketch = sketch, .scale = subspace.scale, .scalars = scalars, .transposed = true, .p = p.data});
  walk.run(walk.backend().product, kernels::Product{.tokens = sketch.rank,
                                                    .in = sketch.inputs,
                                                    .out = out,
                                                    .x = p.data,
                                                    .ldx = sketch.inputs,
                                                    .g = factor.data,
                                                    .ldg = out,
                                                    .result = result.data,
                                                    .ld_result = out});
  walk.drop(p);
  walk.drop(factor);
}

}  // namespace comera::layers
