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

  float least() const {
    F low = part[0];
    for (std::int64_t k = 1; k < vectors; ++k) low = min(part[k], low);
    return -max_lane(negate(low));
  }
  float largest() const {
    F high = part[0];
    for (std::int64_t k = 1; k < vectors; ++k) high = max(part[k], high);
    return max_lane(high);
  }

  F part[vectors];
};

// GroupRange of neighbouring groups of a row, a lane each.
struct Ranges {
  static constexpr std::int64_t most = F::width;
  alignas(64) float least[most], inverse[most];

  // `stored` receives the ranges of `count` groups whose smallest and largest numbers are given.
  void find(const float* smallest, const float* largest, std::int64_t count, int bits, std::uint16_t* stored) {
    const I least_bits = flushed_lanes(beside(load(smallest), false));
    const F from = as_float(shift_left<16>(least_bits));
    const F exact = (load(largest) - from) / set(static_cast<float>((1 << bits) - 1));
    const I step_bits = flushed_lanes(beside(exact, true));
    const F step = as_float(shift_left<16>(step_bits));
    store(least, from);
    store(inverse, select(step == zero(), zero(), set(1.0f) / step));
    store(reinterpret_cast<std::int32_t*>(stored), least_bits | shift_left<16>(step_bits), count);
  }

 private:
  // bf16_beside(), flushed(): the numbers in the lower halves of the lanes.
  static I beside(F x, bool above) {
    const I word = as_int(x), one = set(std::int32_t{1});
    const I cut = shift_right<16>((word & set(std::int32_t{0xFFFF})) + set(std::int32_t{0xFFFF}));
    const I negative = shift_right<31>(word);
    return shift_right<16>(word) + (cut & (above ? negative ^ one : negative));
  }
  static I flushed_lanes(I bits) {
    const Mask small = (bits & set(std::int32_t{0x7F80})) == set(std::int32_t{0});
    return as_int(select(small, zero(), as_float(bits)));
  }
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

// The codes of a group, as stored.
void store_codes(const GroupQuantise& a, std::int64_t row, std::int64_t first, std::int64_t count, F least, F inverse) {
  const GroupCodes s = a.shape;
  const Group group(elements(a.x) + row * s.columns + first, count);
  alignas(64) float u[code_group];
  if (a.scalars) offsets(a, row, first, count, u);
  const F levels = set(static_cast<float>((1 << s.bits) - 1));
  const auto code = [&](std::int64_t k) {
    const F offset = a.scalars ? load(u + k * F::width) : set(0.5f);
    return truncated(
        max(min(fma(group.part[k] - least, inverse, offset), levels), zero()));  // floor, as it is not negative
  };
  std::uint8_t* to = a.codes + row * s.row_bytes();
  alignas(64) std::uint8_t memory[code_group];
  std::uint8_t* codes = s.bits == 8 && count == code_group ? to + first : memory;
  for (std::int64_t k = 0; k < Group::vectors; k += 4)
    store_bytes(codes + k * F::width, code(k), code(k + 1), code(k + 2), code(k + 3));
  if (s.bits == 4)
    store_halves(codes, count, to + first / 2);
  else if (codes == memory)
    std::memcpy(to + first, codes, static_cast<std::size_t>(count));
}

// Groups [g, g + count) of a row, at most Ranges::most.
void quantise(const GroupQuantise& a, std::int64_t row, std::int64_t g, std::int64_t count) {
  const GroupCodes s = a.shape;
  const auto columns = [&](std::int64_t i) { return min(code_group, s.columns - (g + i) * code_group); };
  alignas(64) float smallest[Ranges::most] = {}, largest[Ranges::most] = {};
  for (std::int64_t i = 0; i < count; ++i) {
    const Group group(elements(a.x) + row * s.columns + (g + i) * code_group, columns(i));
    smallest[i] = group.least(), largest[i] = group.largest();
  }
  Ranges ranges;
  ranges.find(smallest, largest, count, s.bits, a.ranges + 2 * (row * s.groups() + g));
  for (std::int64_t i = 0; i < count; ++i)
    store_codes(a, row, (g + i) * code_group, columns(i), set(ranges.least[i]), set(ranges.inverse[i]));
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
  for_rows(context, s, [&](std::int64_t row) {
    for (std::int64_t g = 0; g < s.groups(); g += Ranges::most) quantise(a, row, g, min(Ranges::most, s.groups() - g));
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
