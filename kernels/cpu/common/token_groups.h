// Sums over tokens with few results: groups of rows have sums of their own, which are added in group order. The start
// of a dense layer's backward, which makes the gradient of its bias so.
#pragma once

#include "kernels/cpu/common/activation.h"
#include "kernels/cpu/common/workspace.h"
#include "kernels/host/thread_pool.h"
#include "kernels/linear.h"

namespace comera::kernels::COMERA_CPU {

constexpr std::int64_t group_rows = 64;
constexpr std::int64_t largest_groups = 16;

inline std::int64_t groups_of(std::int64_t tokens) {
  return max<std::int64_t>(1, min(largest_groups, tiles_of(tokens, group_rows)));
}

// total[i] += sum of part[group * count + i] over groups, in group order.
inline void add_groups(const Context& context, std::int64_t rows, std::int64_t columns, std::int64_t groups,
                       const float* part, float* total, std::int64_t ld) {
  parallel_for(context, tiles_of(rows, std::int64_t{32}), [&](std::int64_t tile) {
    for (std::int64_t i = tile * 32; i < min(tile * 32 + 32, rows); ++i)
      for (std::int64_t j = 0; j < columns; j += F::width) {
        const std::int64_t lanes = min<std::int64_t>(F::width, columns - j);
        F sum = load(part + i * columns + j, lanes);
        for (std::int64_t g = 1; g < groups; ++g) sum = sum + load(part + (g * rows + i) * columns + j, lanes);
        store(total + i * ld + j, load(total + i * ld + j, lanes) + sum, lanes);
      }
  });
}

// Columns of x whose product with g is computed at once, in whole panels: the sums of all groups take half a MiB, or
// one panel.
inline std::int64_t section_of(const Product& a, std::int64_t panel) {
  constexpr std::int64_t most_sums = 1 << 17;
  const std::int64_t fitting = most_sums / max<std::int64_t>(groups_of(a.tokens) * a.out, 1) / panel * panel;
  return min(max(fitting, panel), a.in);
}

inline std::size_t backward_workspace(const Context&, const LinearBackward& a) {
  return static_cast<std::size_t>(groups_of(a.tokens) * a.out) * sizeof(float);
}

// Overwrites dy with d_pre and adds its column sums, taken before a rounding, to d_bias.
inline void backward_rows(const Context& context, const LinearBackward& a) {
  const std::int64_t groups = groups_of(a.tokens);
  float* part = a.d_bias ? f32(context.workspace) : nullptr;
  parallel_for(context, groups, [&](std::int64_t group) {
    const Range range = part_of(a.tokens, group_rows, groups, group);
    float* sums = part ? part + group * a.out : nullptr;
    if (sums)
      for (std::int64_t j = 0; j < a.out; ++j) sums[j] = 0;
    Element* dy = elements(a.dy) + range.first * a.lddy;
    const Element* pre = a.pre ? elements(a.pre) + range.first * a.lddy : nullptr;
    with_activation(a.activation, [&](auto act) {
      start_rows<decltype(act)>({range.last - range.first, a.out}, dy, a.lddy, pre, a.lddy, dy, a.lddy, sums);
    });
  });
  if (part) add_groups(context, 1, a.out, groups, part, f32(a.d_bias), a.out);
}

// Small gradients are summed by groups.
inline bool by_groups(const Product& a) { return a.in * a.out <= small_product; }

}  // namespace comera::kernels::COMERA_CPU
