// Grids of quantised weights: how numbers are rounded to them. kernels/grids.h has the list of grids and their bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "kernels/grids.h"

namespace comera::quant {

constexpr std::int64_t block = kernels::grid_block;

using kernels::Grid;
inline constexpr std::array all_grids{Grid::q8_0, Grid::q4_1, Grid::q4_0, Grid::q3_0, Grid::q2_0};

const char* name_of(Grid grid);
std::optional<Grid> grid_named(std::string_view name);
int bits_of(Grid grid);
std::int64_t block_bytes(Grid grid);
// Bytes of a line of `count` numbers.
std::int64_t line_bytes(Grid grid, std::int64_t count);

// What the numbers of a block share; both are numbers of half precision. `least`: q4_1 alone.
using Step = kernels::GridStep;

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
