// The backward of a TT layer in two launches that read x and dy once. The first pass (tt_backward_right.h) computes
// d_B, d_bias and parts of U1 from dy. The second pass (tt_backward_left.h) computes dx and d_A from these parts and x.
// Both write sums over groups of tokens, which the next launch adds in order: those of the first pass the second pass,
// those of the second pass the next call that leaves sums (kernels/late_sums.h), or a third launch.
//
// d_pre is never written to memory. U1's parts have 4 R / (2 C) of the bytes of dy in bf16, for slices of C columns.
// Shape and GPU fix the order of all sums.
#pragma once

#include "kernels/cuda/common/workspace.h"
#include "kernels/cuda/tt_linear/tt_backward_left.h"

namespace comera::kernels::cuda {

constexpr std::int64_t least_tiles_of_block = 4;  // so that a block's partial sums are no larger than its input
constexpr std::int64_t few_groups = 8;  // allowed with few tokens: an idle processor costs more than extra partial sums
constexpr std::int64_t many_parts = std::int64_t{24} << 20;  // bytes of parts of U1; more may not fit the L2 cache

// The split of a call into blocks. It depends only on the sizes and on the shared memory per block.
struct BackwardCut {
  int right_strips = 1, left_strips = 1, across = 1, right_teams = 1, left_teams = 1;
  std::int64_t right_slices = 0, left_slices = 1, right_groups = 1, left_groups = 1;
  std::int64_t slices[max_outputs] = {}, most_slices = 0;  // of an output
  std::size_t right_bytes = 0, left_bytes = 0;
};

// Calls f(Tile{}) with the tile for these strips, if one exists.
template <class T, class F>
void with_right_tile(const BackwardCut& cut, const F& f) {
  if constexpr (sizeof(T) == 2)
    if (cut.right_strips == 1 && cut.across == 1 && cut.right_teams == 2) return f(RightTile<T, 1, 1, 2>());
  if (cut.right_strips == 1 && cut.across == 1) return f(RightTile<T, 1, 1>());
  if (cut.right_strips == 2 && cut.across == 1) return f(RightTile<T, 1, 2>());
  if constexpr (sizeof(T) == 2)
    if (cut.right_strips == 1 && cut.across == 2) return f(RightTile<T, 2, 1>());
}
template <class T, int teams, class F>
void with_left_strips(int strips, const F& f) {
  switch (strips) {
    case 1: return f(LeftTile<T, 1, teams>());
    case 2: return f(LeftTile<T, 2, teams>());
    case 3: return f(LeftTile<T, 3, teams>());
    case 4: return f(LeftTile<T, 4, teams>());
    default: return;
  }
}
template <class T, class F>
void with_left_tile(const BackwardCut& cut, const F& f) {
  if constexpr (sizeof(T) == 2)
    if (cut.left_teams == 2) return with_left_strips<T, 2>(cut.left_strips, f);
  with_left_strips<T, 1>(cut.left_strips, f);
}

// Number of groups of tiles, for about `blocks` blocks in total. Each block gets at least a few tiles to sum, unless
// processors would be idle.
constexpr std::int64_t groups_of(std::int64_t tokens, std::int64_t slices, std::int64_t blocks) {
  const std::int64_t tiles = blocks_for(tokens, back_rows), few = tiles < few_groups ? tiles : few_groups;
  if (slices == 0) return 1;
  const std::int64_t one_each = blocks_for(processors, slices), pairs = blocks_for(tiles, 2),
                     filled = one_each < pairs ? one_each : pairs;
  std::int64_t most = blocks_for(tiles, least_tiles_of_block);
  for (const std::int64_t least : {few, filled}) most = least > most ? least : most;
  const std::int64_t wanted = blocks / slices;
  return wanted < 1 ? 1 : wanted < most ? wanted : most;
}

// Rows of the grid: the groups; and if less than half of the processors have one, others that only add earlier sums.
inline unsigned rows_of_grid(std::int64_t slices, std::int64_t groups, const GroupSums<>& sums) {
  const bool idle = sums.count > 0 && 2 * slices * groups <= processors;
  return static_cast<unsigned>(idle ? processors / slices : groups);
}

// Where two blocks would share a processor, one with two teams takes the work of both, if its shared memory allows: it
// adds their sums on the chip, so that there are half as many to write and to read. A block that has several tiles gets
// two teams as well: the waits of one overlap with the work of the other.
template <class T>
void join_blocks(std::int64_t tokens, BackwardCut& cut, std::int64_t most_apart = processors) {
  BackwardCut joined = cut;
  joined.right_teams = joined.left_teams = 2;
  const auto apart = [&](std::int64_t slices, std::int64_t groups) {
    return slices * groups <= most_apart && blocks_for(tokens, back_rows) < 2 * groups;
  };
  with_right_tile<T>(joined, [&](auto tile) {
    if (tile.teams == 1 || tile.bytes > shared_limit() || apart(cut.right_slices, cut.right_groups)) return;
    cut.right_teams = tile.teams, cut.right_bytes = tile.bytes;
    cut.right_groups = groups_of(tokens, cut.right_slices, processors);
  });
  with_left_tile<T>(joined, [&](auto tile) {
    if (tile.teams == 1 || tile.bytes > shared_limit() || apart(cut.left_slices, cut.left_groups)) return;
    cut.left_teams = tile.teams, cut.left_bytes = tile.bytes;
    cut.left_groups = groups_of(tokens, cut.left_slices, processors);
  });
}

template <class T>
BackwardCut cut_with(const TtLinearBackward& a, int across) {
  BackwardCut cut;
  std::int64_t rank = 1;
  for (int i = 0; i < a.outputs; ++i) rank = a.output[i].rank > rank ? a.output[i].rank : rank;
  cut.right_strips = static_cast<int>(blocks_for(rank, warp_tile)),
  cut.left_strips = static_cast<int>(blocks_for(a.width, warp_tile));
  cut.across = across;
  with_right_tile<T>(cut, [&](auto tile) {
    cut.right_bytes = tile.bytes;
    for (int i = 0; i < a.outputs; ++i) {
      cut.right_slices += cut.slices[i] = blocks_for(a.output[i].out, tile.columns);
      cut.most_slices = cut.slices[i] > cut.most_slices ? cut.slices[i] : cut.most_slices;
    }
  });
  with_left_tile<T>(cut, [&](auto tile) {
    cut.left_bytes = tile.bytes;
    if (a.dx || a.x) cut.left_slices = blocks_for(a.in, tile.columns);
  });
  cut.right_groups = groups_of(a.tokens, cut.right_slices, (across > 1 ? 1 : 2) * processors);  // as many as fit
  cut.left_groups = groups_of(a.tokens, cut.left_slices, 2 * processors);
  if (sizeof(T) == 2) join_blocks<T>(a.tokens, cut);
  return cut;
}

// A pass without slices has no blocks, so nobody would add the sums that wait.
inline bool fits(const BackwardCut& cut) {
  const std::size_t limit = shared_limit();
  if (cut.right_slices == 0 || cut.left_slices == 0) return false;
  return cut.right_bytes > 0 && cut.left_bytes > 0 && cut.right_bytes <= limit && cut.left_bytes <= limit;
}

// Chooses wider slices, and so fewer parts of U1, if the parts exceed the cache and there is no activation. With an
// activation, the slopes need a second block per processor.
template <class T>
BackwardCut cut_of(const TtLinearBackward& a) {
  const BackwardCut cut = cut_with<T>(a, 1);
  if (cut.most_slices * a.tokens * a.width * 4 <= many_parts || a.activation != Activation::none) return cut;
  const BackwardCut wider = cut_with<T>(a, 2);
  return fits(wider) ? wider : cut;
}

struct BackwardParts {
  float *u1 = nullptr, *d_right[max_outputs] = {}, *sums[max_outputs] = {}, *d_left = nullptr;

  // d_A's are a part of the workspace if nobody else has memory for them.
  BackwardParts(const TtLinearBackward& a, const BackwardCut& cut, Parts& parts, void* late_parts = nullptr)
      : d_left(static_cast<float*>(late_parts)) {
    u1 = parts.take<float>(cut.most_slices * a.tokens * a.width);
    for (int i = 0; i < a.outputs; ++i) {
      const TtOutput& o = a.output[i];
      d_right[i] = parts.take<float>(cut.right_groups * o.rank * o.out);
      if (o.d_bias) sums[i] = parts.take<float>(cut.right_groups * o.out);
    }
    if (a.x && !late_parts) d_left = parts.take<float>(cut.left_groups * a.in * a.width);
  }
};

inline LateSums right_sums(const TtLinearBackward& a, const BackwardCut& cut, const BackwardParts& parts) {
  const int groups = static_cast<int>(cut.right_groups);
  LateSums sums;
  static_assert(2 * max_outputs <= most_late_sums);
  for (int i = 0; i < a.outputs; ++i) {
    const TtOutput& o = a.output[i];
    sums.sum[sums.count++] = {parts.d_right[i], o.d_right, o.rank * o.out, o.rank * o.out, groups};
    if (o.d_bias) sums.sum[sums.count++] = {parts.sums[i], o.d_bias, o.out, o.out, groups};
  }
  return sums;
}

inline LateSums left_sums(const TtLinearBackward& a, const BackwardCut& cut, const void* parts) {
  if (!a.x || a.tokens == 0) return {};
  const std::int64_t count = a.in * a.width;
  LateSums sums;
  sums.count = 1;
  sums.bytes = static_cast<std::size_t>(cut.left_groups * count) * sizeof(float);
  sums.sum[0] = {parts, a.d_left, count, count, static_cast<int>(cut.left_groups)};
  return sums;
}

// The fused passes read and write 16 bytes at a time, and compute `pre` as T1 B + bias.
template <class T>
bool can_fuse(const TtLinearBackward& a) {
  constexpr std::int64_t lanes = lanes_of_vector<T>, limit = (std::int64_t{1} << 30);
  bool can = a.width > 0 && a.in < limit && a.width < limit && rows_are_aligned<T>(a.left, a.width) &&
             rows_are_aligned<T>(a.t1, a.width) && rows_are_aligned<T>(a.u1, a.width) &&
             rows_are_aligned<float>(a.d_left, a.width);
  if (a.dx || a.x) can &= a.in % lanes == 0 && rows_are_aligned<T>(a.dx, a.lddx) && rows_are_aligned<T>(a.x, a.ldx);
  for (int i = 0; i < a.outputs; ++i) {
    const TtOutput& o = a.output[i];
    can &= o.out < limit && o.out % lanes == 0 && o.rank % lanes == 0 && o.offset % lanes == 0 &&
           rows_are_aligned<T>(o.right, o.out) && rows_are_aligned<T>(o.dy, o.ldy) &&
           rows_are_aligned<float>(o.d_right, o.out) && rows_are_aligned<float>(o.d_bias, o.out) &&
           (!o.pre || a.activation == Activation::none);
  }
  return can && fits(cut_of<T>(a));
}

template <class T>
Status first_pass(const Context& context, const TtLinearBackward& a, const BackwardCut& cut,
                  const BackwardParts& parts) {
  RightGradient<T> pass;
  pass.tokens = a.tokens, pass.width = static_cast<int>(a.width), pass.outputs = a.outputs,
  pass.activation = a.activation, pass.groups = static_cast<unsigned>(cut.right_groups);
  pass.t1 = static_cast<const T*>(a.t1), pass.u1 = parts.u1;
  std::int64_t slice = 0;
  for (int i = 0; i < a.outputs; slice += cut.slices[i++]) {
    const TtOutput& o = a.output[i];
    RightOutput<T>& to = pass.output[i];
    to.right = static_cast<const T*>(o.right), to.dy = static_cast<const T*>(o.dy),
    to.bias = static_cast<const float*>(o.bias), to.ld = o.ldy;
    to.d_right = parts.d_right[i], to.sums = parts.sums[i];
    to.columns = static_cast<int>(o.out), to.rank = static_cast<int>(o.rank), to.offset = static_cast<int>(o.offset);
    to.first_slice = static_cast<int>(slice);
  }
  const GroupSums<> earlier = earlier_sums(context);
  const dim3 grid(static_cast<unsigned>(cut.right_slices), rows_of_grid(cut.right_slices, cut.right_groups, earlier));
  Status status = Status::ok;
  with_right_tile<T>(cut, [&](auto tile) {
    using Tile = decltype(tile);
    status = launch(context, {grid, dim3(Tile::threads, Tile::teams), Tile::bytes},
                    tt_backward_right<T, Tile::across, Tile::strips, Tile::teams>, pass, earlier);
  });
  return status;
}

template <class T>
Status second_pass(const Context& context, const TtLinearBackward& a, const BackwardCut& cut,
                   const BackwardParts& parts) {
  LeftGradient<T> pass;
  pass.tokens = a.tokens, pass.ldx = a.ldx, pass.lddx = a.lddx, pass.in = static_cast<int>(a.in),
  pass.width = static_cast<int>(a.width), pass.groups = static_cast<unsigned>(cut.left_groups);
  pass.accumulate_dx = a.accumulate_dx;
  pass.left = static_cast<const T*>(a.left), pass.x = static_cast<const T*>(a.x), pass.u1 = static_cast<T*>(a.u1),
  pass.dx = static_cast<T*>(a.dx);
  pass.parts = parts.u1, pass.d_left = parts.d_left, pass.slices = static_cast<int>(cut.most_slices);
  for (int i = 0; i < a.outputs; ++i)
    pass.output[i] = {static_cast<int>(a.output[i].offset), static_cast<int>(cut.slices[i])};
  const GroupSums<> sums = group_sums(right_sums(a, cut, parts));
  const dim3 grid(static_cast<unsigned>(cut.left_slices), rows_of_grid(cut.left_slices, cut.left_groups, sums));
  Status status = Status::ok;
  with_left_tile<T>(cut, [&](auto tile) {
    using Tile = decltype(tile);
    status = launch(context, {grid, dim3(Tile::threads, Tile::teams), Tile::bytes},
                    tt_backward_left<T, Tile::strips, Tile::teams>, pass, sums);
  });
  return status;
}

// The workspace holds BackwardParts.
template <class T>
Status backward_in_passes(const Context& context, const TtLinearBackward& a, const BackwardCut& cut) {
  if (a.tokens == 0) return Status::ok;
  Parts memory(context.workspace);
  const BackwardParts parts(a, cut, memory, context.late_parts);
  Status status = first_pass<T>(context, a, cut, parts);
  if (status == Status::ok) status = second_pass<T>(context, a, cut, parts);
  if (status != Status::ok || context.late_parts) return status;
  return launch_sums(context, left_sums(a, cut, parts.d_left));
}

}  // namespace comera::kernels::cuda
