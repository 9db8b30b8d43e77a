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
constexpr std::int64_t largest_group = kernels::largest_grid_group;

using kernels::all_grids;
using kernels::Grid;
using kernels::group_of;

const char* name_of(Grid grid);
std::optional<Grid> grid_named(std::string_view name);
int bits_of(Grid grid);                                        // of a code
std::optional<Grid> in_groups(Grid grid, std::int64_t group);  // the grid with the same codes in such groups
// Bytes, and groups, of a line of `count` numbers.
std::int64_t line_bytes(Grid grid, std::int64_t count);
std::int64_t groups_of(Grid grid, std::int64_t count);

// The numbers of a group share it; both are numbers of half precision. `least`: q4_1 alone.
using Step = kernels::GridStep;

int codes_of(Grid grid);  // number of codes, which count from 0
float level(Grid grid, Step step, int code);
int nearest(Grid grid, Step step, double value);  // the code of the nearest level

// The step with the least sum of importance[i] (values[i] - nearest level)², by a search over scales and
// least-squares fits. `importance` may be empty: all count the same. At most `largest_group` values.
Step best_step(Grid grid, std::span<const double> values, std::span<const double> importance = {});

struct Group {
  Step step;
  std::array<int, largest_group> codes{};  // those beyond the numbers that were read are 0
};

// One group, or the `count` first numbers of one. What is missing in the last block has code 0.
void pack(Grid grid, Step step, std::span<const std::uint8_t> codes, std::byte* bytes);
Group read_group(Grid grid, const std::byte* bytes, std::int64_t count);
void unpack(Grid grid, const std::byte* bytes, std::span<float> values);

// A group of 2 or 3 bits with the codes of q4_0 and the same numbers: its levels are odd multiples of half its scale.
// Scales below 2^-13 may lose their last bit. Groups of 4 bits stay.
Group widened(Grid grid, Group group);
// A line of numbers, of at most 4 bits and without a least number, as one of q4_0.
void widen_line(Grid grid, const std::byte* bytes, std::int64_t count, std::byte* q4_0);

// A line of numbers.
void decode_line(Grid grid, std::span<const std::byte> bytes, std::span<float> values);

}  // namespace comera::quant
