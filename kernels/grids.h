// Products with weights whose numbers lie on a grid, and look-ups in tables of such numbers.
//
// A line of numbers is stored in groups that share a scale d in half precision. A group is d, for q4_1 also m, then the
// codes of its blocks of 32 numbers. A line's last group may have fewer blocks, and its last block fewer numbers: those
// that are missing have the code of the smallest number.
//
//   grid  bits  numbers                     codes of a block  a group of 32
//   q8_0  8     d c, c = -127 .. 127        32 bytes          34 bytes
//   q4_1  4     d c + m, c = 0 .. 15        16                20
//   q4_0  4     d (c - 8), c = 0 .. 15      16                18
//   q3_0  3     d (c - 3.5), c = 0 .. 7     12                14
//   q2_0  2     d (c - 1.5), c = 0 .. 3     8                 10
//
// These have groups of 32. q4_0g64, q3_0g128 and the like have the same codes in groups of 64 or 128.
//
// The bytes of q8_0, q4_1 and q4_0 are those of ggml's formats of these names: of q8_0 the numbers c, else code i of a
// block in the low half of byte i, or for i >= 16 in the high half of byte i - 16. q3_0 and q2_0 are our own: a block
// is one number of 96 or 64 bits, in which code i begins at bit 3 i or 2 i.
#pragma once

#include <array>
#include <cstring>

#include "kernels/bags.h"
#include "kernels/philox.h"

namespace comera::kernels {

enum class Grid : std::uint8_t {
  q8_0,
  q4_1,
  q4_0,
  q3_0,
  q2_0,
  q4_0g64,
  q3_0g64,
  q2_0g64,
  q4_0g128,
  q3_0g128,
  q2_0g128
};

inline constexpr std::array all_grids{Grid::q8_0,     Grid::q4_1,     Grid::q4_0,    Grid::q3_0,
                                      Grid::q2_0,     Grid::q4_0g64,  Grid::q3_0g64, Grid::q2_0g64,
                                      Grid::q4_0g128, Grid::q3_0g128, Grid::q2_0g128};

constexpr int grid_block = 32;
constexpr int largest_grid_group = 128;

// The grid in groups of 32 with the same codes.
COMERA_HD constexpr Grid code_grid(Grid grid) {
  switch (grid) {
    case Grid::q4_0g64:
    case Grid::q4_0g128: return Grid::q4_0;
    case Grid::q3_0g64:
    case Grid::q3_0g128: return Grid::q3_0;
    case Grid::q2_0g64:
    case Grid::q2_0g128: return Grid::q2_0;
    default: return grid;
  }
}

// Numbers that share a scale.
COMERA_HD constexpr std::int64_t group_of(Grid grid) {
  if (grid >= Grid::q4_0g128) return 128;
  return grid >= Grid::q4_0g64 ? 64 : 32;
}

COMERA_HD constexpr int bytes_of_step(Grid grid) { return grid == Grid::q4_1 ? 4 : 2; }

// A block's codes have so many bytes.
COMERA_HD constexpr int bytes_of_codes(Grid grid) {
  switch (code_grid(grid)) {
    case Grid::q8_0: return 32;
    case Grid::q3_0: return 12;
    case Grid::q2_0: return 8;
    default: return 16;
  }
}

COMERA_HD constexpr int bits_of_code(Grid grid) { return 8 * bytes_of_codes(grid) / grid_block; }

// A group of so many blocks has so many bytes, its step included.
COMERA_HD constexpr std::int64_t bytes_of_group(Grid grid, std::int64_t blocks) {
  return bytes_of_step(grid) + blocks * bytes_of_codes(grid);
}

// Addresses of the step that a block shares, and of its own codes.
struct GridBlock {
  const std::uint8_t *step, *codes;
};

// Matrices of numbers on a grid. Line l begins at bytes + l line_bytes().
struct GridLines {
  Grid grid = Grid::q8_0;
  std::int64_t lines = 0, numbers = 0;  // numbers: of a line
  const std::uint8_t* bytes = nullptr;

  COMERA_HD constexpr std::int64_t blocks() const { return (numbers + grid_block - 1) / grid_block; }
  COMERA_HD constexpr std::int64_t groups() const { return (numbers + group_of(grid) - 1) / group_of(grid); }
  COMERA_HD constexpr std::int64_t line_bytes() const {
    return groups() * bytes_of_step(grid) + blocks() * bytes_of_codes(grid);
  }
  // Block `at` of the line that begins at `line`.
  COMERA_HD constexpr GridBlock block(const std::uint8_t* line, std::int64_t at) const {
    const std::int64_t blocks_of_group = group_of(grid) / grid_block;
    const std::uint8_t* group = line + at / blocks_of_group * bytes_of_group(grid, blocks_of_group);
    return {group, group + bytes_of_group(grid, at % blocks_of_group)};
  }
};

// y = act(x Q + bias), or with `accumulate` y = act(y + x Q + bias). Line n of the weight is column n of Q [M, N].
struct GridLinear {
  std::int64_t tokens = 0;  // K
  GridLines weight;         // N lines of M numbers
  const void* x = nullptr;  // [K, M]
  std::int64_t ldx = 0;
  const void* bias = nullptr;  // [N], optional
  Activation activation = Activation::none;
  bool accumulate = false;
  void* y = nullptr;  // [K, N]
  std::int64_t ldy = 0;
};

// y[b] = or += sum of the lines of bag b.
struct GridEmbedding {
  Bags bags;
  GridLines table;
  void* y = nullptr;  // [bags, numbers]
  bool accumulate = false;
};

constexpr double flops(const GridLinear& a) { return 2.0 * a.tokens * a.weight.lines * a.weight.numbers; }
constexpr double flops(const GridEmbedding&) { return 0; }

// The number with these bits of IEEE half precision.
COMERA_HD inline float half_value(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16, magnitude = bits & 0x7FFFu;
  float value = 0;
  if (magnitude < 0x400u) {  // subnormal: a multiple of 2^-24
    value = static_cast<float>(magnitude) * 0x1p-24f;
    return sign ? -value : value;
  }
  const std::uint32_t word =
      sign | (magnitude >= 0x7C00u ? 0x7F800000u | magnitude << 13 : (magnitude << 13) + 0x38000000u);
  std::memcpy(&value, &word, sizeof value);
  return value;
}

COMERA_HD inline float half_at(const std::uint8_t* bytes) {
  return half_value(static_cast<std::uint16_t>(bytes[0] | bytes[1] << 8));
}

// The code of number i of a block, counted from 0.
COMERA_HD inline int grid_code(Grid grid, const std::uint8_t* codes, int i) {
  switch (code_grid(grid)) {
    case Grid::q8_0: return static_cast<std::int8_t>(codes[i]) + 127;
    case Grid::q3_0: {
      const std::uint8_t* eight = codes + i / 8 * 3;
      return (eight[0] | eight[1] << 8 | eight[2] << 16) >> 3 * (i % 8) & 7;
    }
    case Grid::q2_0: return codes[i / 4] >> 2 * (i % 4) & 3;
    default: return codes[i % 16] >> (i < 16 ? 0 : 4) & 15;
  }
}

// The code, perhaps between two codes, of the number 0; of q4_1: of its least number.
COMERA_HD constexpr float grid_zero(Grid grid) {
  switch (code_grid(grid)) {
    case Grid::q8_0: return 127;
    case Grid::q4_0: return 8;
    case Grid::q3_0: return 3.5f;
    case Grid::q2_0: return 1.5f;
    default: return 0;
  }
}

// A number is step.scale (code - zero) + step.least.
struct GridStep {
  float scale = 0, least = 0;
};
COMERA_HD inline GridStep step_at(Grid grid, const std::uint8_t* step) {
  return {half_at(step), grid == Grid::q4_1 ? half_at(step + 2) : 0};
}
// Number i of a block.
COMERA_HD inline float grid_number(Grid grid, const GridBlock& block, int i) {
  const GridStep step = step_at(grid, block.step);
  return step.scale * (static_cast<float>(grid_code(grid, block.codes, i)) - grid_zero(grid)) + step.least;
}
// Number `at` of a line.
COMERA_HD inline float number_of(const GridLines& lines, std::int64_t line, std::int64_t at) {
  const GridBlock block = lines.block(lines.bytes + line * lines.line_bytes(), at / grid_block);
  return grid_number(lines.grid, block, static_cast<int>(at % grid_block));
}

}  // namespace comera::kernels
