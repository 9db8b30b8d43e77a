// Dense products of bf16 factors, tile by tile (tiles.h). The words of the right factor are
// packed per tile and block of the inner dimension; rows of the left factor are read where they lie.
#include "kernels/linear.h"

#include "kernels/cpu/bf16/group_product.h"
#include "kernels/cpu/ops.h"

namespace comera::kernels::COMERA_CPU {
namespace {

using PairFactors = FactorsOf<Bf16>;

struct PairTileMemory {
  alignas(64) Word a[inner / 2 * largest_rows];  // words of a transposed left factor, or rows of an odd inner dimension
  alignas(64) Word b[inner / 2 * strip];
  alignas(64) float c[largest_rows * largest_tile];
};

LeftWords left_words(const PairFactors& f, const Tile& t, std::int64_t first, std::int64_t count, Word* memory) {
  if (f.transpose_a) {
    pack_pairs(count, t.rows, f.a + first * f.lda + t.row, f.lda, memory, t.rows);
    return columns_of(memory, t.rows);
  }
  return rows_of(t.rows, count, f.a + t.row * f.lda + first, f.lda, reinterpret_cast<Bf16*>(memory));
}

void multiply_tile(const PairFactors& f, const Tile& t, PairTileMemory& memory) {
  for (std::int64_t first = 0; first < max<std::int64_t>(f.k, 1); first += inner) {
    const std::int64_t count = min(inner, f.k - first);
    const LeftWords left = left_words(f, t, first, count, memory.a);
    for (std::int64_t j = 0; j < t.columns; j += strip) {
      const std::int64_t columns = min(strip, t.columns - j), column = t.column + j;
      const Bf16* b = f.b + (f.transpose_b ? column * f.ldb + first : first * f.ldb + column);
      const RightLayout layout(count, columns);
      pack_right(count, columns, b, f.ldb, f.transpose_b, layout, memory.b);
      multiply_pairs({t.rows, columns, pairs_of(count), layout.ld, largest_tile, first > 0, layout.panel}, left,
                     memory.b, memory.c + j);
    }
  }
}

// Calls finish(tile, its values at largest_tile) for every tile, in parallel.
template <class Finish>
void for_each_tile(const Context& context, const PairFactors& f, Finish finish) {
  const Tiles tiles(f.m, f.n, largest_rows);
  parallel_for(context, tiles.count(), [&](std::int64_t i) {
    PairTileMemory memory;
    multiply_tile(f, tiles[i], memory);
    finish(tiles[i], memory.c);
  });
}

Status run(const Context& context, const LinearForward& a) {
  const PairFactors factors{a.tokens, a.out, a.in, elements(a.x), a.ldx, false, elements(a.weight), a.out, false};
  for_each_tile(context, factors, [&](const Tile& t, const float* product) {
    const std::int64_t at = t.row * a.ldy + t.column;
    with_activation(a.activation, [&](auto act) {
      const float* bias = a.bias ? f32(a.bias) + t.column : nullptr;
      Element *pre = a.pre ? elements(a.pre) + at : nullptr, *y = elements(a.y) + at;
      if (a.tokens * a.out >= streamed_from)
        finish_rows<decltype(act), true>({t.rows, t.columns}, product, largest_tile, bias, pre, y, a.ldy);
      else
        finish_rows<decltype(act)>({t.rows, t.columns}, product, largest_tile, bias, pre, y, a.ldy);
    });
  });
  return Status::ok;
}

Status run(const Context& context, const LinearBackward& a) {
  if (context.workspace_bytes < backward_workspace(context, a)) return Status::workspace_too_small;
  if (a.d_bias || a.activation != Activation::none) backward_rows(context, a);
  if (!a.dx) return Status::ok;
  const PairFactors factors{a.tokens, a.in, a.out, elements(a.dy), a.lddy, false, elements(a.weight), a.out, true};
  for_each_tile(context, factors, [&](const Tile& t, const float* product) {
    add_tile(t, product, a.accumulate_dx, elements(a.dx), a.lddx);
  });
  return Status::ok;
}

Status run(const Context& context, const MatMul& a) {
  const PairFactors factors{a.m, a.n, a.k, elements(a.a), a.lda, a.transpose_a, elements(a.b), a.ldb, a.transpose_b};
  for_each_tile(context, factors,
                [&](const Tile& t, const float* product) { add_tile(t, product, a.accumulate, elements(a.c), a.ldc); });
  return Status::ok;
}

}  // namespace

std::size_t product_workspace(const Context&, const Product& a) {
  if (!by_groups(a)) return 0;
  Workspace counter(nullptr);
  GroupProductMemory(a, counter);
  return counter.used();
}

Status run_product(const Context& context, const Product& a) {
  if (context.workspace_bytes < product_workspace(context, a)) return Status::workspace_too_small;
  if (a.tokens == 0) return Status::ok;
  if (by_groups(a)) {
    Workspace workspace(context.workspace);
    product_of_words(context, a, GroupProductMemory(a, workspace),
                     [&](std::int64_t row, std::int64_t rows, std::int64_t j, std::int64_t columns, Word* words) {
                       pack_pairs<16>(rows, columns, elements(a.x) + row * a.ldx + j, a.ldx, words, columns);
                     });
    return Status::ok;
  }
  const PairFactors factors{a.in, a.out, a.tokens, elements(a.x), a.ldx, true, elements(a.g), a.ldg, false};
  for_each_tile(context, factors,
                [&](const Tile& t, const float* product) { add_tile(t, product, true, f32(a.result), a.ld_result); });
  return Status::ok;
}

void bind(Op<LinearForward>& op) { op.run = run; }
void bind(Op<LinearBackward>& op) { op.run = run, op.workspace_bytes = backward_workspace; }
void bind(Op<Product>& op) { op.run = run_product, op.workspace_bytes = product_workspace; }
void bind(Op<MatMul>& op) { op.run = run; }

}  // namespace comera::kernels::COMERA_CPU
