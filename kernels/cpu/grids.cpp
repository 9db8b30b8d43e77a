// Products with weights on grids. Few tokens: each line is read once, its codes become floats in registers. More
// tokens: tiles of dense products whose right factor is unpacked instead of copied.
#include "kernels/grids.h"

#include <cstring>

#include "kernels/cpu/common/activation.h"
#include "kernels/cpu/common/grid_block.h"
#include "kernels/cpu/common/id_runs.h"
#include "kernels/cpu/common/tile_gemm.h"
#include "kernels/cpu/common/workspace.h"
#include "kernels/cpu/ops.h"
#include "kernels/host/thread_pool.h"

namespace comera::kernels::COMERA_CPU {
namespace {

constexpr std::int64_t few_tokens = 8;  // more are faster in tiles
constexpr int tokens_at_once = 4;
constexpr std::int64_t lines_of_tile = 32;
constexpr std::int64_t bags_of_tile = 32;

// The part of some tokens behind the last whole block, with zeros.
template <int tokens>
struct Tail {
  float x[tokens][grid_block];

  Tail(const GridLinear& a, std::int64_t token) {
    const std::int64_t first = a.weight.numbers / grid_block * grid_block;
    for (int t = 0; t < tokens; ++t)
      for (std::int64_t i = 0; i < grid_block; ++i)
        x[t][i] = first + i < a.weight.numbers ? f32(a.x)[(token + t) * a.ldx + first + i] : 0;
  }
};

// total[t] += the products of a block with the same numbers of `tokens` tokens.
template <Grid grid, int tokens>
void add_block(const std::uint8_t* bytes, const float* x, std::int64_t ldx, F* total) {
  const CodedBlock<grid> block(bytes);
  if constexpr (CodedBlock<grid>::has_least) {
    for (int i = 0; i < grid_block; i += F::width) {
      const F numbers = block.numbers(i);
      for (int t = 0; t < tokens; ++t) total[t] = fma(numbers, load(x + t * ldx + i), total[t]);
    }
  } else {
    F sum[tokens];
    for (int t = 0; t < tokens; ++t) sum[t] = zero();
    for (int i = 0; i < grid_block; i += F::width) {
      const F codes = block.codes(i);
      for (int t = 0; t < tokens; ++t) sum[t] = fma(codes, load(x + t * ldx + i), sum[t]);
    }
    for (int t = 0; t < tokens; ++t) total[t] = fma(sum[t], set(block.scale), total[t]);
  }
}

// sums[t, l - first] = x[token + t] with line l, for the lines [first, last).
template <Grid grid, int tokens>
void multiply_lines(const GridLinear& a, std::int64_t token, std::int64_t first, std::int64_t last, float* sums) {
  const GridLines& w = a.weight;
  const Tail<tokens> tail(a, token);
  const float* x = f32(a.x) + token * a.ldx;
  for (std::int64_t line = first; line < last; ++line) {
    const std::uint8_t* bytes = w.bytes + line * w.line_bytes();
    F total[tokens];
    for (int t = 0; t < tokens; ++t) total[t] = zero();
    std::int64_t at = 0;
    for (; at + grid_block <= w.numbers; at += grid_block, bytes += bytes_of_block(grid))
      add_block<grid, tokens>(bytes, x + at, a.ldx, total);
    if (at < w.numbers) add_block<grid, tokens>(bytes, tail.x[0], grid_block, total);
    for (int t = 0; t < tokens; ++t) sums[t * lines_of_tile + line - first] = sum(total[t]);
  }
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

template <Grid grid, int tokens>
void multiply_tokens(const GridLinear& a, std::int64_t token, std::int64_t first, std::int64_t last) {
  alignas(64) float sums[tokens * lines_of_tile];
  multiply_lines<grid, tokens>(a, token, first, last, sums);
  finish_tile(a, {tokens, last - first}, sums, lines_of_tile, token, first);
}

template <Grid grid>
void multiply_few(const Context& context, const GridLinear& a) {
  parallel_for(context, tiles_of(a.weight.lines, lines_of_tile), [&](std::int64_t tile) {
    const std::int64_t first = tile * lines_of_tile, last = min(first + lines_of_tile, a.weight.lines);
    std::int64_t token = 0;
    for (; token + tokens_at_once <= a.tokens; token += tokens_at_once)
      multiply_tokens<grid, tokens_at_once>(a, token, first, last);
    for (; token < a.tokens; ++token) multiply_tokens<grid, 1>(a, token, first, last);
  });
}

template <Grid grid>
void unpack(const std::uint8_t* bytes, std::int64_t count, float* numbers) {
  for (std::int64_t at = 0; at < count; at += grid_block, bytes += bytes_of_block(grid)) {
    const CodedBlock<grid> block(bytes);
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
        unpack<grid>(w.bytes + (p.column + j + l) * w.line_bytes() + p.first / grid_block * bytes_of_block(grid),
                     p.inner, numbers + l * inner_block);
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
  with_grid(a.weight.grid, [&]<Grid grid>() {
    a.tokens <= few_tokens ? multiply_few<grid>(context, a) : multiply_tiles<grid>(context, a);
  });
  return Status::ok;
}

// y += a line.
template <Grid grid>
void add_line(const GridLines& table, std::int64_t line, float* y) {
  const std::uint8_t* bytes = table.bytes + line * table.line_bytes();
  for (std::int64_t at = 0; at < table.numbers; at += grid_block, bytes += bytes_of_block(grid)) {
    const CodedBlock<grid> block(bytes);
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
      with_grid(a.table.grid, [&]<Grid grid>() {
        for (std::int64_t i = first; i < last; ++i) add_line<grid>(a.table, a.bags.id[i], y);
      });
    }
  });
  return Status::ok;
}

}  // namespace

void bind(Op<GridLinear>& op) { op.run = run; }
void bind(Op<GridEmbedding>& op) { op.run = run; }

}  // namespace comera::kernels::COMERA_CPU
