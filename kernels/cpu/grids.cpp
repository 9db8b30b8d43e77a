// Products with weights on grids. Few tokens: the inputs are put into the order of the codes once, then each line is
// read once and its codes become floats in registers. More tokens: tiles of dense products whose right factor is
// unpacked instead of copied.
#include "kernels/grids.h"

#include <cstring>

#include "kernels/cpu/common/activation.h"
#include "kernels/cpu/common/few_tokens.h"
#include "kernels/cpu/common/grid_block.h"
#include "kernels/cpu/common/id_runs.h"
#include "kernels/cpu/common/tile_gemm.h"
#include "kernels/cpu/ops.h"

namespace comera::kernels::COMERA_CPU {
namespace {

constexpr std::int64_t bags_of_tile = 32;

// Inputs in the order of CodeLanes: per block its 32 numbers, divided by the units of the codes, then a vector of their
// sums, each lane over the numbers of its codes. Of q4_1 the sums are multiplied by the least number of the block; of
// the other grids they are stored times minus the code of 0, and added to the product with the codes.
constexpr int lane_block = grid_block + F::width;

template <Grid grid>
void order_by_lanes(const float* x, float* lanes) {
  using Codes = CodeLanes<grid>;
  F sum = zero();
  for (int k = 0; k < Codes::parts; ++k) {
    alignas(64) std::int32_t index[F::width];
    for (int lane = 0; lane < F::width; ++lane) index[lane] = Codes::number_of(lane, k);
    const F part = gather(x, load(index));
    store(lanes + F::width * k, part * set(1 / Codes::unit(k)));
    sum = sum + part;
  }
  store(lanes + grid_block, grid == Grid::q4_1 ? sum : sum * set(-Codes::zero));
}

std::int64_t floats_of_token(const GridLinear& a) { return a.weight.blocks() * lane_block; }

template <Grid grid>
void order_tokens(const GridLinear& a, float* lanes) {
  for (std::int64_t t = 0; t < a.tokens; ++t) {
    const float* x = f32(a.x) + t * a.ldx;
    for (std::int64_t at = 0; at < a.weight.numbers; at += grid_block, lanes += lane_block) {
      const std::int64_t count = min<std::int64_t>(grid_block, a.weight.numbers - at);
      if (count == grid_block) {
        order_by_lanes<grid>(x + at, lanes);
      } else {  // what is missing is 0
        float last[grid_block] = {};
        std::memcpy(last, x + at, static_cast<std::size_t>(count) * sizeof(float));
        order_by_lanes<grid>(last, lanes);
      }
    }
  }
}

template <Grid grid, class Visit>
void for_each_part(Visit visit) {
  visit.template operator()<0>(), visit.template operator()<1>();
  if constexpr (CodeLanes<grid>::parts == 4) visit.template operator()<2>(), visit.template operator()<3>();
}

// The sum over a block of codes times an ordered block of inputs, a part per lane.
template <Grid grid>
F sum_of_block(const F (&part)[CodeLanes<grid>::parts], const float* x) {
  const auto lanes = [&](int i) { return load(x + F::width * i); };
  constexpr int parts = CodeLanes<grid>::parts;
  F even = part[0] * lanes(0), odd = part[1] * lanes(1);
  if constexpr (grid != Grid::q4_1 && CodeLanes<grid>::zero != 0) even = fma(part[0], lanes(0), lanes(parts));
  for (int k = 2; k < parts; k += 2) even = fma(part[k], lanes(k), even), odd = fma(part[k + 1], lanes(k + 1), odd);
  return even + odd;
}

// Adds the group's sum times its scale, and for q4_1 the least number times the inputs' sums.
template <Grid grid>
F add_group(const std::uint8_t* step, F sum, const float* x, F total) {
  if constexpr (grid == Grid::q4_1) total = fma(set(half_number(step + 2)), load(x + grid_block), total);
  return fma(sum, set(half_number(step)), total);
}

// sums[t, l - first] = token t of `x` with line first + l, for l < lines. `wide`: a group has several blocks; `more`:
// there are further lines. It prefetches, because the processor's own prefetcher needs longer lines.
template <Grid grid, int tokens, int lines, bool wide, bool more>
void multiply_lines(const GridLines& w, const float* x, std::int64_t ldx, std::int64_t line, float* sums) {
  constexpr std::int64_t ahead = 2560;  // bytes
  const std::int64_t line_bytes = w.line_bytes(), most = wide ? group_of(w.grid) / grid_block : 1;
  const std::uint8_t *bytes = w.bytes + line * line_bytes,
                     *later = bytes + max<std::int64_t>(lines * line_bytes, ahead);
  F total[tokens][lines];
  for (int t = 0; t < tokens; ++t)
    for (int l = 0; l < lines; ++l) total[t][l] = zero();
  for (std::int64_t left = w.blocks(); left > 0; left -= most) {
    const std::int64_t count = wide ? min(most, left) : 1;
    const std::uint8_t* const step = bytes;
    bytes += bytes_of_step(grid);
    F group[tokens][lines];
    for (std::int64_t b = 0; b < count; ++b, bytes += bytes_of_codes(grid), x += lane_block) {
      for (int i = 0; i < lines * bytes_of_codes(grid); i += 64, later += 64) _mm_prefetch(later, _MM_HINT_T0);
      for (int l = 0; l < lines; ++l) {
        const CodeLanes<grid> codes(bytes + l * line_bytes, more);
        F part[CodeLanes<grid>::parts];
        for_each_part<grid>([&]<int k>() { part[k] = codes.template part<k>(); });
        for (int t = 0; t < tokens; ++t) {
          const F sum = sum_of_block<grid>(part, x + t * ldx);
          if constexpr (wide)
            group[t][l] = b == 0 ? sum : group[t][l] + sum;
          else
            total[t][l] = add_group<grid>(step + l * line_bytes, sum, x + t * ldx, total[t][l]);
        }
      }
    }
    for (int l = 0; wide && l < lines; ++l)
      for (int t = 0; t < tokens; ++t)
        total[t][l] = add_group<grid>(step + l * line_bytes, group[t][l], x, total[t][l]);
  }
  for (int t = 0; t < tokens; ++t)
    for (int l = 0; l < lines; ++l) sums[t * lines_of_tile + l] = sum(total[t][l]);
}

template <Grid grid, int tokens, int lines, bool wide>
void multiply_next(const GridLines& w, const float* x, std::int64_t ldx, std::int64_t line, float* sums) {
  constexpr bool matters = grid == Grid::q3_0;  // whether there are further lines
  if (matters && line + lines < w.lines)
    multiply_lines<grid, tokens, lines, wide, matters>(w, x, ldx, line, sums);
  else
    multiply_lines<grid, tokens, lines, wide, false>(w, x, ldx, line, sums);
}

// y = act(sums + bias), or of y + sums + bias.
void finish_tile(const GridLinear& a, Block size, float* sums, std::int64_t ld, std::int64_t row, std::int64_t column) {
  float* y = f32(a.y) + row * a.ldy + column;
  for (std::int64_t i = 0; a.accumulate && i < size.rows; ++i)
    for (std::int64_t j = 0; j < size.columns; j += F::width) {
      const std::int64_t lanes = min<std::int64_t>(F::width, size.columns - j);
      store(sums + i * ld + j, load(sums + i * ld + j, lanes) + load(y + i * a.ldy + j, lanes), lanes);
    }
  with_activation(a.activation, [&](auto act) {
    finish_rows<decltype(act)>(size, sums, ld, a.bias ? f32(a.bias) + column : nullptr, nullptr, y, a.ldy);
  });
}

std::size_t workspace(const Context&, const GridLinear& a) {
  return a.tokens <= few_tokens ? static_cast<std::size_t>(a.tokens * floats_of_token(a)) * sizeof(float) : 0;
}

template <Grid grid, bool wide>
void multiply_few(const Context& context, const GridLinear& a) {
  float* lanes = f32(context.workspace);
  const std::int64_t ld = floats_of_token(a);
  order_tokens<grid>(a, lanes);
  for_line_ranges(context, a.weight.lines, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t first = begin; first < end; first += lines_of_tile) {
      const std::int64_t last = min(first + lines_of_tile, end);
      for_few_tokens(a.tokens, [&]<int tokens>(std::int64_t token) {
        constexpr int lines = tokens == 1 ? 4 : 1;
        alignas(64) float sums[tokens * lines_of_tile];
        const float* x = lanes + token * ld;
        std::int64_t line = first;
        for (; line + lines <= last; line += lines)
          multiply_next<grid, tokens, lines, wide>(a.weight, x, ld, line, sums + line - first);
        for (; line < last; ++line) multiply_next<grid, tokens, 1, wide>(a.weight, x, ld, line, sums + line - first);
        finish_tile(a, {tokens, last - first}, sums, lines_of_tile, token, first);
      });
    }
  });
}

// Numbers [first, first + count) of a line; `first` is that of a block.
template <Grid grid>
void unpack(const GridLines& w, const std::uint8_t* line, std::int64_t first, std::int64_t count, float* numbers) {
  for (std::int64_t at = 0; at < count; at += grid_block) {
    const CodedBlock<grid> block(w.block(line, (first + at) / grid_block));
    for (int i = 0; i < grid_block; i += F::width) store(numbers + at + i, block.numbers(i));
  }
}

template <Grid grid>
void multiply_tiles(const Context& context, const GridLinear& a) {
  static_assert(inner_block % grid_block == 0);
  const GridLines& w = a.weight;
  const auto pack = [&](const Panel& p, float* packed) {
    alignas(64) float numbers[F::width * inner_block];
    for (std::int64_t j = 0; j < p.columns; j += F::width) {
      const std::int64_t lines = min<std::int64_t>(F::width, p.columns - j);
      for (std::int64_t l = 0; l < lines; ++l)
        unpack<grid>(w, w.bytes + (p.column + j + l) * w.line_bytes(), p.first, p.inner, numbers + l * inner_block);
      transpose(lines, p.inner, numbers, inner_block, packed + j, p.columns);
    }
  };
  const Factors factors{a.tokens, w.lines, w.numbers, f32(a.x), a.ldx, false, nullptr, 0, true};
  for_each_tile(context, factors, pack, [&](const Tile& t, float* product) {
    finish_tile(a, {t.rows, t.columns}, product, largest_tile, t.row, t.column);
  });
}

Status run(const Context& context, const GridLinear& a) {
  if (context.dtype != DType::f32) return Status::unsupported_dtype;
  if (context.workspace_bytes < workspace(context, a)) return Status::workspace_too_small;
  with_codes(a.weight.grid, [&]<Grid grid>() {
    if (a.tokens > few_tokens) return multiply_tiles<grid>(context, a);
    if constexpr (grid != Grid::q8_0 && grid != Grid::q4_1)
      if (group_of(a.weight.grid) > grid_block) return multiply_few<grid, true>(context, a);
    multiply_few<grid, false>(context, a);
  });
  return Status::ok;
}

// y += a line.
template <Grid grid>
void add_line(const GridLines& table, std::int64_t line, float* y) {
  const std::uint8_t* bytes = table.bytes + line * table.line_bytes();
  for (std::int64_t at = 0; at < table.numbers; at += grid_block) {
    const CodedBlock<grid> block(table.block(bytes, at / grid_block));
    for (std::int64_t i = 0; i < grid_block && at + i < table.numbers; i += F::width) {
      const std::int64_t lanes = min<std::int64_t>(F::width, table.numbers - at - i);
      store(y + at + i, load(y + at + i, lanes) + block.numbers(static_cast<int>(i)), lanes);
    }
  }
}

Status run(const Context& context, const GridEmbedding& a) {
  if (context.dtype != DType::f32) return Status::unsupported_dtype;
  if (!ids_in_range(a.bags, a.table.lines)) return Status::unsupported_shape;
  const std::int64_t columns = a.table.numbers;
  parallel_for(context, tiles_of(a.bags.bags, bags_of_tile), [&](std::int64_t tile) {
    for (std::int64_t bag = tile * bags_of_tile; bag < min(a.bags.bags, (tile + 1) * bags_of_tile); ++bag) {
      const std::int64_t first = a.bags.offsets ? a.bags.offsets[bag] : bag,
                         last = a.bags.offsets ? a.bags.offsets[bag + 1] : bag + 1;
      float* y = f32(a.y) + bag * columns;
      if (!a.accumulate) std::memset(y, 0, static_cast<std::size_t>(columns) * sizeof(float));
      with_codes(a.table.grid, [&]<Grid grid>() {
        for (std::int64_t i = first; i < last; ++i) add_line<grid>(a.table, a.bags.id[i], y);
      });
    }
  });
  return Status::ok;
}

}  // namespace

void bind(Op<GridLinear>& op) { op.run = run, op.workspace_bytes = workspace; }
void bind(Op<GridEmbedding>& op) { op.run = run; }

}  // namespace comera::kernels::COMERA_CPU
