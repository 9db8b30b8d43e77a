// Copies of activations: integers by groups of columns, or bf16.
#include "kernels/group_codes.h"

#include <cstring>

#include "kernels/cpu/common/element.h"
#include "kernels/cpu/common/workspace.h"
#include "kernels/cpu/ops.h"
#include "kernels/host/thread_pool.h"

namespace comera::kernels::COMERA_CPU {
namespace {

constexpr std::int64_t tile = 16384;  // elements of a tile, in whole rows

// Calls body(row, group, first column, columns) for every group, several rows per tile.
template <class Body>
void for_groups(const Context& context, const GroupCodes& s, Body body) {
  const std::int64_t rows = max<std::int64_t>(1, tile / max<std::int64_t>(1, s.columns));
  parallel_for(context, tiles_of(s.rows, rows), [&](std::int64_t index) {
    for (std::int64_t row = index * rows; row < min(s.rows, (index + 1) * rows); ++row)
      for (std::int64_t g = 0; g < s.groups(); ++g)
        body(row, g, g * code_group, min(code_group, s.columns - g * code_group));
  });
}

GroupRange range_of(const Element* x, std::int64_t count, int bits) {
  F low = set(number(x[0])), high = low;
  sweep(0, count, [&](std::int64_t i, auto lanes) {
    F value = load(x + i, lanes);
    if constexpr (sizeof(lanes) > 1) value = select(first_lanes(lanes.n), value, set(number(x[0])));
    low = min(value, low), high = max(value, high);
  });
  return {-max_lane(negate(low)), max_lane(high), bits};
}

// u of the elements of a group.
void offsets(const GroupQuantise& a, std::int64_t row, std::int64_t first, std::int64_t count, float* u) {
  for (std::int64_t i = 0; i < count; i += 8) {
    const PhiloxBlock block = rounding_block(*a.scalars, a.site, row, first + i);
    for (std::int64_t j = 0; j < 8; ++j) u[i + j] = rounding_offset(block, j);
  }
}

// Calls body(first, last) for pieces of the elements.
template <class Body>
void for_pieces(const Context& context, const GroupCodes& s, Body body) {
  const std::int64_t count = s.rows * s.columns;
  parallel_for(context, tiles_of(count, tile),
               [&](std::int64_t index) { body(index * tile, min(count, (index + 1) * tile)); });
}

Status run(const Context& context, const GroupQuantise& a) {
  if (context.dtype != element_type) return Status::unsupported_dtype;
  const GroupCodes s = a.shape;
  if (!s.has_ranges()) {
    for_pieces(context, s, [&](std::int64_t first, std::int64_t last) {
      sweep(first, last,
            [&](std::int64_t i, auto lanes) { store(as<Bf16>(a.codes) + i, load(elements(a.x) + i, lanes), lanes); });
    });
    return Status::ok;
  }
  for_groups(context, s, [&](std::int64_t row, std::int64_t g, std::int64_t first, std::int64_t count) {
    const Element* x = elements(a.x) + row * s.columns + first;
    const GroupRange range = range_of(x, count, s.bits);
    std::uint16_t* stored = a.ranges + 2 * (row * s.groups() + g);
    stored[0] = range.least_bits, stored[1] = range.step_bits;
    alignas(64) float u[code_group];
    alignas(64) std::uint8_t codes[code_group] = {};
    if (a.scalars) offsets(a, row, first, count, u);
    const F least = set(range.least), inverse = set(range.inverse), levels = set(static_cast<float>((1 << s.bits) - 1));
    sweep(0, count, [&](std::int64_t i, auto lanes) {
      const F offset = a.scalars ? load(u + i) : set(0.5f);
      const F code = fma(load(x + i, lanes) - least, inverse, offset);
      store_bytes(codes + i, truncated(max(min(code, levels), zero())));  // truncation is floor from 0 on
    });
    std::uint8_t* to = a.codes + row * s.row_bytes();
    if (s.bits == 8) {
      std::memcpy(to + first, codes, static_cast<std::size_t>(count));
    } else {
      if (count < code_group) std::memset(codes + count, 0, static_cast<std::size_t>(code_group - count));
      for (std::int64_t i = 0; i < (count + 1) / 2; ++i)
        to[first / 2 + i] = static_cast<std::uint8_t>(codes[2 * i] | codes[2 * i + 1] << 4);
    }
  });
  return Status::ok;
}

Status run(const Context& context, const GroupRestore& a) {
  if (context.dtype != element_type) return Status::unsupported_dtype;
  const GroupCodes s = a.shape;
  if (!s.has_ranges()) {
    for_pieces(context, s, [&](std::int64_t first, std::int64_t last) {
      sweep(first, last,
            [&](std::int64_t i, auto lanes) { store(elements(a.x) + i, load(as<Bf16>(a.codes) + i, lanes), lanes); });
    });
    return Status::ok;
  }
  for_groups(context, s, [&](std::int64_t row, std::int64_t g, std::int64_t first, std::int64_t count) {
    const std::uint16_t* range = a.ranges + 2 * (row * s.groups() + g);
    const F least = set(bf16_value(range[0])), step = set(bf16_value(range[1]));
    const std::uint8_t* from = a.codes + row * s.row_bytes();
    alignas(64) std::uint8_t codes[code_group + F::width];
    if (s.bits == 8) {
      std::memcpy(codes, from + first, static_cast<std::size_t>(count));
    } else {
      for (std::int64_t i = 0; i < (count + 1) / 2; ++i) {
        codes[2 * i] = from[first / 2 + i] & 15;
        codes[2 * i + 1] = from[first / 2 + i] >> 4;
      }
    }
    Element* x = elements(a.x) + row * s.columns + first;
    sweep(0, count,
          [&](std::int64_t i, auto lanes) { store(x + i, fma(to_float(load_bytes(codes + i)), step, least), lanes); });
  });
  return Status::ok;
}

}  // namespace

void bind(Op<GroupQuantise>& op) { op.run = run; }
void bind(Op<GroupRestore>& op) { op.run = run; }

}  // namespace comera::kernels::COMERA_CPU
