// Rotary position embedding.
#include "kernels/rotary.h"

#include "kernels/cpu/common/element.h"
#include "kernels/cpu/common/workspace.h"
#include "kernels/cpu/ops.h"
#include "kernels/host/thread_pool.h"

namespace comera::kernels::COMERA_CPU {
namespace {

constexpr std::int64_t table_rows = 16, tile_elements = 16384;

Status run(const Context& context, const RotaryTable& a) {
  if (context.dtype != DType::f32) return Status::unsupported_dtype;
  const std::int64_t half = a.head_size / 2;
  float *cosines = f32(a.cosines), *sines = f32(a.sines);
  parallel_for(context, tiles_of(a.positions, table_rows), [&](std::int64_t tile) {
    for (std::int64_t i = 0; i < half; ++i) {
      const RotaryAngles& by = a.angles;
      const auto feature = static_cast<double>(i);
      const double base = __builtin_pow(by.theta, -2.0 * feature / static_cast<double>(a.head_size));
      const double share = min(max(by.kept + by.kept_by_feature * feature + by.kept_by_base * base, 0.0), 1.0);
      const double frequency = base * (share + (1 - share) / by.factor);
      for (std::int64_t p = tile * table_rows; p < min(a.positions, (tile + 1) * table_rows); ++p) {
        const double angle = static_cast<double>(p) * frequency;
        cosines[p * half + i] = static_cast<float>(by.amplitude * __builtin_cos(angle));
        sines[p * half + i] = static_cast<float>(by.amplitude * __builtin_sin(angle));
      }
    }
  });
  return Status::ok;
}

// Rotates one head: x and y have 2 * half elements.
void rotate(std::int64_t half, const float* cosines, const float* sines, bool inverse, const Element* x, Element* y) {
  const F sign = set(inverse ? -1.0f : 1.0f);
  sweep(0, half, [=](std::int64_t i, auto lanes) {
    const F cosine = load(cosines + i, lanes), sine = sign * load(sines + i, lanes);
    const F first = load(x + i, lanes), second = load(x + half + i, lanes);
    store(y + i, first * cosine - second * sine, lanes);
    store(y + half + i, second * cosine + first * sine, lanes);
  });
}

Status run(const Context& context, const Rotary& a) {
  if (context.dtype != element_type) return Status::unsupported_dtype;
  const std::int64_t half = a.head_size / 2, width = a.heads * a.head_size,
                     rows = max<std::int64_t>(1, tile_elements / width);
  parallel_for(context, tiles_of(a.tokens, rows), [&](std::int64_t tile) {
    for (std::int64_t k = tile * rows; k < min(a.tokens, (tile + 1) * rows); ++k) {
      const std::int64_t at = a.positions[k] * half;
      for (std::int64_t h = 0; h < a.heads; ++h) {
        const std::int64_t head = a.head_at(k * a.heads + h);
        rotate(half, f32(a.cosines) + at, f32(a.sines) + at, a.inverse, elements(a.x) + head, elements(a.y) + head);
      }
    }
  });
  return Status::ok;
}

}  // namespace

void bind(Op<RotaryTable>& op) { op.run = run; }
void bind(Op<Rotary>& op) { op.run = run; }

}  // namespace comera::kernels::COMERA_CPU
