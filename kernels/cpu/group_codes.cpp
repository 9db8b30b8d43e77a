// Copies of activations: integers by groups of columns, or bf16.
#include "kernels/group_codes.h"

#include <cstring>

#include "kernels/cpu/common/group_lanes.h"
#include "kernels/cpu/common/stream.h"
#include "kernels/cpu/common/workspace.h"
#include "kernels/cpu/ops.h"
#include "kernels/host/thread_pool.h"

namespace comera::kernels::COMERA_CPU {
namespace {

constexpr std::int64_t tile = 16384;  // elements of a tile, in whole rows

// Calls body(row) for every row, several rows per tile.
template <class Body>
void for_rows(const Context& context, const GroupCodes& s, Body body) {
  const std::int64_t rows = max<std::int64_t>(1, tile / max<std::int64_t>(1, s.columns));
  parallel_for(context, tiles_of(s.rows, rows), [&](std::int64_t index) {
    for (std::int64_t row = index * rows; row < min(s.rows, (index + 1) * rows); ++row) body(row);
  });
}

// Calls body(row, group, first column, columns) for every group.
template <class Body>
void for_groups(const Context& context, const GroupCodes& s, Body body) {
  for_rows(context, s, [&](std::int64_t row) {
    for (std::int64_t g = 0; g < s.groups(); ++g)
      body(row, g, g * code_group, min(code_group, s.columns - g * code_group));
  });
}

// The numbers of a group in registers. Lanes beyond its columns repeat the first number.
struct Group {
  static constexpr std::int64_t vectors = code_group / F::width;

  Group(const Element* x, std::int64_t count) {
    for (std::int64_t k = 0; k < vectors; ++k) {
      const std::int64_t lanes = count - k * F::width;
      if (lanes >= F::width) {
        part[k] = load(x + k * F::width, All{});
      } else {
        const F first = set(number(x[0]));
        part[k] = lanes > 0 ? select(first_lanes(lanes), load(x + k * F::width, Some{lanes}), first) : first;
      }
    }
  }

  GroupRange range(int bits) const {
    F low = part[0], high = part[0];
    for (std::int64_t k = 1; k < vectors; ++k) low = min(part[k], low), high = max(part[k], high);
    return {-max_lane(negate(low)), max_lane(high), bits};
  }

  F part[vectors];
};

// u of the elements of a group.
void offsets(const GroupQuantise& a, std::int64_t row, std::int64_t first, std::int64_t count, float* u) {
  for (std::int64_t i = 0; i < count; i += 8) {
    const PhiloxBlock block = rounding_block(*a.scalars, a.site, row, first + i);
    for (std::int64_t j = 0; j < 8; ++j) u[i + j] = rounding_offset(block, j);
  }
}

// Two codes of four bits per byte.
void store_halves(std::uint8_t* codes, std::int64_t count, std::uint8_t* to) {
  for (std::int64_t i = count; i < count + count % 2; ++i) codes[i] = 0;
  for (std::int64_t i = 0; i < (count + 1) / 2; ++i)
    to[i] = static_cast<std::uint8_t>(codes[2 * i] | codes[2 * i + 1] << 4);
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
    const Group group(elements(a.x) + row * s.columns + first, count);
    const GroupRange range = group.range(s.bits);
    std::uint16_t* stored = a.ranges + 2 * (row * s.groups() + g);
    stored[0] = range.least_bits, stored[1] = range.step_bits;
    alignas(64) float u[code_group];
    alignas(64) std::uint8_t memory[code_group] = {};
    if (a.scalars) offsets(a, row, first, count, u);
    std::uint8_t* to = a.codes + row * s.row_bytes();
    std::uint8_t* codes = s.bits == 8 && count == code_group ? to + first : memory;
    const F least = set(range.least), inverse = set(range.inverse), levels = set(static_cast<float>((1 << s.bits) - 1));
    for (std::int64_t k = 0; k < Group::vectors; ++k) {
      const F offset = a.scalars ? load(u + k * F::width) : set(0.5f);
      const F code = fma(group.part[k] - least, inverse, offset);
      store_bytes(codes + k * F::width, truncated(max(min(code, levels), zero())));  // truncation is floor from 0 on
    }
    if (s.bits == 4)
      store_halves(codes, count, to + first / 2);
    else if (codes == memory)
      std::memcpy(to + first, codes, static_cast<std::size_t>(count));
  });
  return Status::ok;
}

template <bool streaming>
void restore(const Context& context, const GroupRestore& a) {
  const GroupCodes s = a.shape;
  for_rows(context, s, [&](std::int64_t row) {
    RowWriter<Element, streaming> to(elements(a.x) + row * s.columns, s.columns);
    for (std::int64_t first = 0; first < s.columns; first += code_group)
      restore_group(s, a.codes, a.ranges, row, first, min(code_group, s.columns - first),
                    [&](std::int64_t j, F numbers, std::int64_t lanes) { to.write(j, numbers, lanes); });
    if constexpr (streaming) finish_streaming();
  });
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
  s.rows* s.columns >= streamed_from ? restore<true>(context, a) : restore<false>(context, a);
  return Status::ok;
}

}  // namespace

void bind(Op<GroupQuantise>& op) { op.run = run; }
void bind(Op<GroupRestore>& op) { op.run = run; }

}  // namespace comera::kernels::COMERA_CPU
