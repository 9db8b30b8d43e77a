// Copies of activations in bf16, or in integers: one warp per group of columns, two neighbouring columns per lane.
#include "kernels/cuda/common/element.h"
#include "kernels/cuda/common/reduce.h"
#include "kernels/cuda/common/runtime.h"
#include "kernels/cuda/ops.h"
#include "kernels/group_codes.h"

namespace comera::kernels::cuda {
namespace {

constexpr int threads = 256, warps = threads / warp_size;
static_assert(code_group == 2 * warp_size);

// The group of a warp, and the two columns of a lane.
struct GroupPlace {
  std::int64_t group, row, column;

  COMERA_DEVICE GroupPlace(const GroupCodes& s, std::int64_t group)
      : group(group),
        row(group / s.groups()),
        column(group % s.groups() * code_group + 2 * (threadIdx.x % warp_size)) {}
};

struct Smaller {
  COMERA_DEVICE float operator()(float a, float b) const { return b < a ? b : a; }
};

template <class F>
__device__ void for_groups(const GroupCodes& s, const F& f) {
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * warps + threadIdx.x / warp_size;
  for (std::int64_t group = first; group < s.rows * s.groups(); group += static_cast<std::int64_t>(gridDim.x) * warps)
    f(GroupPlace(s, group));
}

// Bound by memory traffic: per number sizeof(T) bytes read and bits / 8 written.
template <class T>
__global__ void __launch_bounds__(threads) quantise(const GroupQuantise a) {
  begin_kernel();
  const GroupCodes& s = a.shape;
  const float levels = static_cast<float>((1 << s.bits) - 1);
  for_groups(s, [&](const GroupPlace& at) {
    const T* x = static_cast<const T*>(a.x) + at.row * s.columns;
    float value[2];
    // Lanes behind the last column repeat the first column of the group.
    for (int j = 0; j < 2; ++j)
      value[j] = to_float(x[at.column + j < s.columns ? at.column + j : at.column / code_group * code_group]);
    const GroupRange range(reduce_warp(Smaller{}(value[0], value[1]), Smaller{}),
                           reduce_warp(Larger{}(value[0], value[1]), Larger{}), s.bits);
    if (threadIdx.x % warp_size == 0)
      a.ranges[2 * at.group] = range.least_bits, a.ranges[2 * at.group + 1] = range.step_bits;
    if (at.column >= s.columns) return;
    PhiloxBlock block{};
    if (a.scalars) block = rounding_block(*a.scalars, a.site, at.row, at.column);
    unsigned code[2] = {};
    for (int j = 0; j < 2; ++j) {
      if (at.column + j >= s.columns) continue;
      const float u = a.scalars ? rounding_offset(block, at.column + j) : 0.5f;
      const float place = floorf(fmaf(value[j] - range.least, range.inverse, u));
      code[j] = static_cast<unsigned>(fmaxf(fminf(place, levels), 0.0f));
    }
    std::uint8_t* codes = a.codes + at.row * s.row_bytes();
    if (s.bits == 4) {
      codes[at.column / 2] = static_cast<std::uint8_t>(code[0] | code[1] << 4);
    } else {
      for (int j = 0; j < 2; ++j)
        if (at.column + j < s.columns) codes[at.column + j] = static_cast<std::uint8_t>(code[j]);
    }
  });
}

template <class T>
__global__ void __launch_bounds__(threads) restore(const GroupRestore a) {
  begin_kernel();
  const GroupCodes& s = a.shape;
  for_groups(s, [&](const GroupPlace& at) {
    if (at.column >= s.columns) return;
    const float least = bf16_value(a.ranges[2 * at.group]), step = bf16_value(a.ranges[2 * at.group + 1]);
    const std::uint8_t* codes = a.codes + at.row * s.row_bytes();
    T* x = static_cast<T*>(a.x) + at.row * s.columns;
    for (int j = 0; j < 2; ++j) {
      if (at.column + j >= s.columns) continue;
      const unsigned code = s.bits == 8 ? codes[at.column + j] : codes[at.column / 2] >> (4 * j) & 15u;
      x[at.column + j] = to_element<T>(fmaf(static_cast<float>(code), step, least));
    }
  });
}

template <class T>
__global__ void __launch_bounds__(threads) round_to_bf16(const GroupQuantise a) {
  begin_kernel();
  const std::int64_t count = a.shape.rows * a.shape.columns, step = static_cast<std::int64_t>(gridDim.x) * threads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x; i < count; i += step)
    reinterpret_cast<std::uint16_t*>(a.codes)[i] = bf16_nearest(to_float(static_cast<const T*>(a.x)[i]));
}

template <class T>
__global__ void __launch_bounds__(threads) restore_bf16(const GroupRestore a) {
  begin_kernel();
  const std::int64_t count = a.shape.rows * a.shape.columns, step = static_cast<std::int64_t>(gridDim.x) * threads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x; i < count; i += step)
    static_cast<T*>(a.x)[i] = to_element<T>(bf16_value(reinterpret_cast<const std::uint16_t*>(a.codes)[i]));
}

Launch grid(const GroupCodes& s) {
  if (!s.has_ranges()) return {grid_for(s.rows * s.columns, threads), threads};
  return {grid_for(s.rows * s.groups(), warps), threads};
}

Status run(const Context& context, const GroupQuantise& a) {
  return with_element(context, [&]<class T>(T) {
    return launch(context, grid(a.shape), a.shape.has_ranges() ? quantise<T> : round_to_bf16<T>, a);
  });
}

Status run(const Context& context, const GroupRestore& a) {
  return with_element(context, [&]<class T>(T) {
    return launch(context, grid(a.shape), a.shape.has_ranges() ? restore<T> : restore_bf16<T>, a);
  });
}

}  // namespace

// This backend lacks the op: the layer then restores the numbers into the memory of dx.
void bind(Op<CodeProduct>&) {}
void bind(Op<GroupQuantise>& op) { op.run = run; }
void bind(Op<GroupRestore>& op) { op.run = run; }

}  // namespace comera::kernels::cuda
