#include "lib/quant/grid.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "lib/core/error.h"
#include "lib/core/half.h"
#include "lib/quant/levels.h"

namespace comera::quant {
namespace {

// In the order of kernels::Grid.
constexpr std::array<const char*, all_grids.size()> names{
    "q8_0", "q4_1", "q4_0", "q3_0", "q2_0", "q4_0g64", "q3_0g64", "q2_0g64", "q4_0g128", "q3_0g128", "q2_0g128"};

float rounded(double value) { return half_to_float(float_to_half(static_cast<float>(value))); }

void put_half(float value, std::byte* bytes) {
  const std::uint16_t bits = float_to_half(value);
  std::memcpy(bytes, &bits, sizeof bits);
}

// Steps to choose from, and the loss of each.
struct Tries {
  static constexpr std::size_t most = 88, lanes = 8;
  std::array<float, most> scale{}, least{};
  std::array<double, most> loss{};
  std::size_t count = 0;

  void add(Step step) {
    if (step.scale == 0 || !std::isfinite(step.scale) || !std::isfinite(step.least)) return;
    scale[count] = step.scale, least[count++] = step.least;
  }
};

// `importance`: one per value. Steps are the inner loop: the sum of each has the order of the values.
COMERA_AVX2 void measure(Grid grid, std::span<const double> values, std::span<const double> importance, Tries& tries) {
  const Levels levels(grid);
  tries.loss.fill(0);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double value = values[i], weight = importance[i];
    for (std::size_t first = 0; first < tries.count; first += Tries::lanes)
      for (std::size_t k = first; k < first + Tries::lanes; ++k) {
        const double code = levels.nearest(tries.scale[k], tries.least[k], value);
        const double error = value - levels.level(tries.scale[k], tries.least[k], code);
        tries.loss[k] += weight * error * error;
      }
  }
}

COMERA_AVX2 void find_codes(Grid grid, Step step, std::span<const double> values, double* codes) {
  const Levels levels(grid);
  for (std::size_t i = 0; i < values.size(); ++i) codes[i] = levels.nearest(step.scale, step.least, values[i]);
}

// The least-squares scale, and with `affine` the least number too, for the codes that `step` gives.
Step refit(Grid grid, Step step, std::span<const double> values, std::span<const double> importance) {
  const bool affine = grid == Grid::q4_1;
  double weight = 0, sum_c = 0, sum_v = 0, sum_cc = 0, sum_cv = 0;
  std::array<double, largest_group> codes;
  find_codes(grid, step, values, codes.data());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double w = importance[i];
    const double c = codes[i] - static_cast<double>(kernels::grid_zero(grid));
    weight += w, sum_c += w * c, sum_v += w * values[i], sum_cc += w * c * c, sum_cv += w * c * values[i];
  }
  if (!affine) return {sum_cc > 0 ? rounded(sum_cv / sum_cc) : step.scale, 0};
  const double spread = weight * sum_cc - sum_c * sum_c;
  if (!(spread > 0)) return step;
  const double scale = (weight * sum_cv - sum_c * sum_v) / spread;
  return {rounded(scale), rounded((sum_v - scale * sum_c) / weight)};
}

}  // namespace

const char* name_of(Grid grid) { return names[static_cast<std::size_t>(grid)]; }
int bits_of(Grid grid) { return kernels::bits_of_code(grid); }
int codes_of(Grid grid) { return grid == Grid::q8_0 ? 255 : 1 << bits_of(grid); }
std::int64_t line_bytes(Grid grid, std::int64_t count) {
  return kernels::GridLines{grid, 1, count, nullptr}.line_bytes();
}
std::int64_t groups_of(Grid grid, std::int64_t count) { return kernels::GridLines{grid, 1, count, nullptr}.groups(); }

std::optional<Grid> in_groups(Grid grid, std::int64_t group) {
  for (const Grid one : all_grids)
    if (kernels::code_grid(one) == kernels::code_grid(grid) && group_of(one) == group) return one;
  return std::nullopt;
}

std::optional<Grid> grid_named(std::string_view name) {
  for (const Grid one : all_grids)
    if (name == name_of(one)) return one;
  return std::nullopt;
}

float level(Grid grid, Step step, int code) {
  return step.scale * (static_cast<float>(code) - kernels::grid_zero(grid)) + step.least;
}

int nearest(Grid grid, Step step, double value) {
  return static_cast<int>(Levels(grid).nearest(step.scale, step.least, value));
}

Step best_step(Grid grid, std::span<const double> values, std::span<const double> importance) {
  constexpr std::array<double, largest_group> alike = [] {
    std::array<double, largest_group> ones{};
    ones.fill(1);
    return ones;
  }();
  if (importance.empty()) importance = alike;
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  if (values.empty() || (*least == 0 && *most == 0)) return {};
  const double largest = std::abs(*least) > std::abs(*most) ? *least : *most;  // with its sign
  const int bits = bits_of(grid);
  Tries tries;
  // The largest number lies on the last code, or beyond it: the fewer the codes, the more it pays. The two ends of q4_1
  // are cut apart from each other.
  const double shrink = bits >= 8 ? 0.98 : bits == 4 ? 0.6 : 0.4;
  constexpr int scales = 18, ends = 8, refits = 3;
  const auto part = [&](int i, int of) { return shrink + (1.04 - shrink) * i / of; };
  if (grid == Grid::q4_1) {
    const double middle = (*least + *most) / 2, half = (*most - *least) / 2;
    for (int i = 0; i <= ends; ++i)
      for (int k = 0; k <= ends; ++k)
        tries.add({rounded(half * (part(i, ends) + part(k, ends)) / (codes_of(grid) - 1)),
                   rounded(middle - half * part(i, ends))});
  }
  for (int i = 0; i <= scales && grid != Grid::q4_1; ++i) {
    const double scale = part(i, scales) * largest / static_cast<double>(kernels::grid_zero(grid));
    tries.add({rounded(scale), 0});
    if (kernels::code_grid(grid) == Grid::q4_0)
      tries.add({rounded(-scale), 0});  // its codes reach farther below zero than above
  }
  constexpr float finest = 0x1p-24F;  // of half precision
  if (tries.count == 0) return {grid == Grid::q4_1 ? static_cast<float>(rounded(largest)) : finest, 0};
  Step best;
  double best_loss = -1;
  const auto choose = [&] {
    measure(grid, values, importance, tries);
    for (std::size_t k = 0; k < tries.count; ++k)
      if (best_loss < 0 || tries.loss[k] < best_loss)
        best = {tries.scale[k], tries.least[k]}, best_loss = tries.loss[k];
  };
  choose();
  for (int i = 0; i < refits; ++i) {
    tries.count = 0;
    tries.add(refit(grid, best, values, importance));
    choose();
  }
  return best;
}

void pack(Grid grid, Step step, std::span<const std::uint8_t> codes, std::byte* bytes) {
  const std::int64_t of_block = kernels::bytes_of_codes(grid), blocks = (std::ssize(codes) + block - 1) / block;
  std::memset(bytes, 0, static_cast<std::size_t>(kernels::bytes_of_group(grid, blocks)));
  put_half(step.scale, bytes);
  if (grid == Grid::q4_1) put_half(step.least, bytes + 2);
  std::byte* rest = bytes + kernels::bytes_of_step(grid);
  const auto bits = static_cast<std::size_t>(bits_of(grid));
  for (std::int64_t b = 0; b < blocks; ++b, rest += of_block)
    for (std::size_t i = 0; i < static_cast<std::size_t>(block); ++i) {
      const std::size_t at = static_cast<std::size_t>(b * block) + i;
      const unsigned code = at < codes.size() ? codes[at] : 0;
      switch (kernels::code_grid(grid)) {
        case Grid::q8_0: rest[i] = static_cast<std::byte>(static_cast<std::uint8_t>(code - 127U)); break;
        case Grid::q3_0:
        case Grid::q2_0:
          for (std::size_t k = 0; k < bits; ++k)
            rest[(bits * i + k) / 8] |= static_cast<std::byte>((code >> k & 1U) << (bits * i + k) % 8);
          break;
        default: rest[i % 16] |= static_cast<std::byte>(code << (i < 16 ? 0 : 4)); break;
      }
    }
}

Group read_group(Grid grid, const std::byte* bytes, std::int64_t count) {
  const auto* raw = reinterpret_cast<const std::uint8_t*>(bytes);
  Group result{kernels::step_at(grid, raw)};
  const std::uint8_t* codes = raw + kernels::bytes_of_step(grid);
  for (std::int64_t i = 0; i < count; ++i)
    result.codes[static_cast<std::size_t>(i)] =
        kernels::grid_code(grid, codes + i / block * kernels::bytes_of_codes(grid), static_cast<int>(i % block));
  return result;
}

void unpack(Grid grid, const std::byte* bytes, std::span<float> values) {
  const Group read = read_group(grid, bytes, std::ssize(values));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = level(grid, read.step, read.codes[i]);
}

Group widened(Grid grid, Group group) {
  if (bits_of(grid) >= 4) return group;
  // d (c - z) = (d / 2) (c' - 8)
  const int shift = 8 - static_cast<int>(2 * kernels::grid_zero(grid));
  group.step.scale = rounded(group.step.scale / 2);
  for (int& code : group.codes) code = 2 * code + shift;
  return group;
}

void widen_line(Grid grid, const std::byte* bytes, std::int64_t count, std::byte* q4_0) {
  COMERA_CHECK(bits_of(grid) <= 4 && grid != Grid::q4_1);
  for (std::int64_t first = 0; first < count; first += group_of(grid)) {
    const std::int64_t size = std::min(group_of(grid), count - first);
    const Group wide = widened(grid, read_group(grid, bytes, size));
    bytes += line_bytes(grid, size);
    for (std::int64_t at = 0; at < size; at += block) {
      std::array<std::uint8_t, block> codes{};
      const auto here = static_cast<std::size_t>(std::min(block, size - at));
      std::copy_n(wide.codes.begin() + at, here, codes.begin());
      pack(Grid::q4_0, wide.step, std::span(codes).first(here), q4_0);
      q4_0 += line_bytes(Grid::q4_0, block);
    }
  }
}

void decode_line(Grid grid, std::span<const std::byte> bytes, std::span<float> values) {
  const auto group = static_cast<std::size_t>(group_of(grid));
  const std::byte* from = bytes.data();
  for (std::size_t at = 0; at < values.size(); at += group) {
    const std::span<float> part = values.subspan(at, std::min(group, values.size() - at));
    unpack(grid, from, part);
    from += line_bytes(grid, std::ssize(part));
  }
}

}  // namespace comera::quant
