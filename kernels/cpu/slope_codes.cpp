// Two-bit codes of slopes: comparisons of a vector give two words of a bit per lane, whose bits are interleaved.
#include "kernels/slope_codes.h"

#include <cstring>

#include "kernels/cpu/common/element.h"
#include "kernels/cpu/common/workspace.h"
#include "kernels/cpu/ops.h"
#include "kernels/host/thread_pool.h"

namespace comera::kernels::COMERA_CPU {
namespace {

constexpr std::int64_t tile = 16384;  // elements of a tile, in whole rows

template <class Body>
void for_rows(const Context& context, std::int64_t rows, std::int64_t columns, Body body) {
  const std::int64_t step = max<std::int64_t>(1, tile / max<std::int64_t>(1, columns));
  parallel_for(context, tiles_of(rows, step), [&](std::int64_t index) {
    for (std::int64_t row = index * step; row < min(rows, (index + 1) * step); ++row) body(row);
  });
}

// Bit i of 16 moves to bit 2 i.
std::uint32_t spread(std::uint32_t bits) {
  bits = (bits | bits << 8) & 0x00FF00FFu;
  bits = (bits | bits << 4) & 0x0F0F0F0Fu;
  bits = (bits | bits << 2) & 0x33333333u;
  return (bits | bits << 1) & 0x55555555u;
}

// The four codes of a byte, a byte each.
std::uint32_t unpacked(std::uint8_t codes) {
  std::uint32_t bytes = codes;
  bytes = (bytes | bytes << 12) & 0x000F000Fu;
  return (bytes | bytes << 6) & 0x03030303u;
}

std::int64_t lanes_in(All) { return F::width; }
std::int64_t lanes_in(Some lanes) { return lanes.n; }

Status run(const Context& context, const SlopeEncode& a) {
  if (context.dtype != element_type) return Status::unsupported_dtype;
  const F first = set(a.table.cut[0]), second = set(a.table.cut[1]), third = set(a.table.cut[2]);
  for_rows(context, a.rows, a.columns, [&](std::int64_t row) {
    const Element* x = elements(a.x) + row * a.columns;
    std::uint8_t* codes = a.codes + row * slope_row_bytes(a.columns);
    sweep(0, a.columns, [&](std::int64_t i, auto lanes) {
      const F value = load(x + i, lanes);
      const std::int64_t count = lanes_in(lanes);
      const std::uint32_t inside = (1u << count) - 1, above = bits_of(second < value) & inside;
      const std::uint32_t odd = ((bits_of(first < value) & ~above) | bits_of(third < value)) & inside;
      const std::uint32_t word = spread(odd) | spread(above) << 1;
      std::memcpy(codes + i / 4, &word, static_cast<std::size_t>((count + 3) / 4));
    });
  });
  return Status::ok;
}

Status run(const Context& context, const SlopeApply& a) {
  if (context.dtype != element_type) return Status::unsupported_dtype;
  const float* slope = a.table.slope;
  const F slopes[4] = {set(slope[0]), set(slope[1]), set(slope[2]), set(slope[3])};
  const I one = set(std::int32_t{1}), two = set(std::int32_t{2}), three = set(std::int32_t{3});
  for_rows(context, a.rows, a.columns, [&](std::int64_t row) {
    const Element* dy = elements(a.dy) + row * a.columns;
    Element* dx = elements(a.dx) + row * a.columns;
    const std::uint8_t* codes = a.codes + row * slope_row_bytes(a.columns);
    sweep(0, a.columns, [&](std::int64_t i, auto lanes) {
      alignas(16) std::uint8_t bytes[F::width] = {};
      for (std::int64_t j = 0; j < F::width / 4 && 4 * j < lanes_in(lanes); ++j) {
        const std::uint32_t four = unpacked(codes[i / 4 + j]);
        std::memcpy(bytes + 4 * j, &four, 4);
      }
      const I code = load_bytes(bytes);
      F factor = select(code == one, slopes[1], slopes[0]);
      factor = select(code == two, slopes[2], factor);
      factor = select(code == three, slopes[3], factor);
      store(dx + i, load(dy + i, lanes) * factor, lanes);
    });
  });
  return Status::ok;
}

}  // namespace

void bind(Op<SlopeEncode>& op) { op.run = run; }
void bind(Op<SlopeApply>& op) { op.run = run; }

}  // namespace comera::kernels::COMERA_CPU
