// Grids of quantised weights. 32 neighbours of a line share a scale in half precision; the codes of a line's last block
// may be fewer, and what is missing is stored as the code of the smallest number.
//
//   name  bits  numbers of a block          bytes of a block
//   q8_0  8     d c, c = -127 .. 127        34
//   q4_1  4     d c + m, c = 0 .. 15        20
//   q4_0  4     d (c - 8), c = 0 .. 15      18
//   q3_0  3     d (c - 3.5), c = 0 .. 7     14
//   q2_0  2     d (c - 1.5), c = 0 .. 3     10
//
// The bytes of q8_0, q4_1 and q4_0 are those of ggml's formats of these names. q3_0 and q2_0 are our own: the scale,
// then the low two bits of code i in bits 2 (i mod 4) of byte i / 4, then for q3_0 the high bit of code i in bit i mod
// 8 of byte i / 8.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace comera::quant {

constexpr std::int64_t block = 32;

enum class Grid : std::uint8_t { q8_0, q4_1, q4_0, q3_0, q2_0 };
inline constexpr std::array all_grids{Grid::q8_0, Grid::q4_1, Grid::q4_0, Grid::q3_0, Grid::q2_0};

const char* name_of(Grid grid);
std::optional<Grid> grid_named(std::string_view name);
int bits_of(Grid grid);
std::int64_t block_bytes(Grid grid);
// Bytes of a line of `count` numbers.
std::int64_t line_bytes(Grid grid, std::int64_t count);

// What the numbers of a block share; both are numbers of half precision.
struct Step {
  float scale = 0, least = 0;  // least: q4_1 alone
};

int codes_of(Grid grid);  // number of codes, which count from 0
float level(Grid grid, Step step, int code);
int nearest(Grid grid, Step step, double value);  // the code of the nearest level

// The step with the least sum of importance[i] (values[i] - nearest level)², by a search over scales and
// least-squares fits. `importance` may be empty: all count the same. At most 32 values.
Step best_step(Grid grid, std::span<const double> values, std::span<const double> importance = {});

struct Block {
  Step step;
  std::array<int, block> codes{};
};

// One block. `codes` has 32 entries.
void pack(Grid grid, Step step, std::span<const std::uint8_t> codes, std::byte* bytes);
void unpack(Grid grid, const std::byte* bytes, float* values);  // 32 numbers

Block read_block(Grid grid, const std::byte* bytes);

// A block of q3_0 or q2_0 as a block of q4_0 with the same numbers: its levels are odd multiples of half its scale.
// Scales below 2^-13 may lose their last bit.
void widen(Grid grid, const std::byte* bytes, std::byte* q4_0);

// A line of numbers.
void decode_line(Grid grid, std::span<const std::byte> bytes, std::span<float> values);

}  // namespace comera::quant
