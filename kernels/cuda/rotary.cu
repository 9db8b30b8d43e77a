// Rotary position embeddings: the table of angles and the rotation.
#include "kernels/cuda/common/eights.h"
#include "kernels/cuda/ops.h"
#include "kernels/rotary.h"

namespace comera::kernels::cuda {
namespace {

constexpr unsigned threads = 256;

__global__ void __launch_bounds__(threads) make_table(const RotaryTable __grid_constant__ a) {
  begin_kernel();
  const std::int64_t half = a.head_size / 2;
  for (std::int64_t i = flat_index(); i < a.positions * half; i += flat_stride()) {
    const auto feature = static_cast<double>(i % half);
    const double base = pow(a.angles.theta, -2.0 * feature / static_cast<double>(a.head_size));
    const double share =
        fmin(fmax(a.angles.kept + a.angles.kept_by_feature * feature + a.angles.kept_by_base * base, 0.0), 1.0);
    const double frequency = base * (share + (1 - share) / a.angles.factor);
    const std::int64_t position = i / half;
    const double angle = static_cast<double>(position) * frequency;
    static_cast<float*>(a.cosines)[i] = static_cast<float>(a.angles.amplitude * cos(angle));
    static_cast<float*>(a.sines)[i] = static_cast<float>(a.angles.amplitude * sin(angle));
  }
}

Status run(const Context& context, const RotaryTable& a) {
  return with_element(context, [&](auto) {
    return launch(context, {grid_for(a.positions * (a.head_size / 2), threads), threads}, make_table, a);
  });
}

// Each item rotates eight features of the first half of a head with their partners in the second half. Bound by memory
// traffic: x and y once.
template <class T>
__global__ void __launch_bounds__(threads) rotate(const Rotary __grid_constant__ a, bool aligned) {
  begin_kernel();
  const std::int64_t half = a.head_size / 2, eights = blocks_for(half, 8);
  for (std::int64_t i = flat_index(); i < a.tokens * a.heads * eights; i += flat_stride()) {
    const std::int64_t head = i / eights, at = i % eights * 8, angle = a.positions[head / a.heads] * half;
    const T *x = static_cast<const T*>(a.x) + a.head_at(head), *other = x + half;
    const Eight cosine = get<Eight>(static_cast<const float*>(a.cosines) + angle, at, half, aligned);
    const Eight sine = get<Eight>(static_cast<const float*>(a.sines) + angle, at, half, aligned);
    Eight first = get<Eight>(x, at, half, aligned), second = get<Eight>(other, at, half, aligned);
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const float turn = a.inverse ? -sine.v[j] : sine.v[j], u = first.v[j], v = second.v[j];
      first.v[j] = u * cosine.v[j] - v * turn;
      second.v[j] = v * cosine.v[j] + u * turn;
    }
    T* y = static_cast<T*>(a.y) + a.head_at(head);
    put(y, at, half, aligned, first);
    put(y + half, at, half, aligned, second);
  }
}

Status run(const Context& context, const Rotary& a) {
  const std::int64_t half = a.head_size / 2;
  return with_element(context, [&]<class T>(T) {
    const bool aligned = a.ld % 8 == 0 && all_aligned<T>(half, a.x, a.y, a.cosines, a.sines);
    return launch(context, {grid_for(a.tokens * a.heads * blocks_for(half, 8), threads), threads}, rotate<T>, a,
                  aligned);
  });
}

}  // namespace

void bind(Op<RotaryTable>& op) { op.run = run; }
void bind(Op<Rotary>& op) { op.run = run; }

}  // namespace comera::kernels::cuda
