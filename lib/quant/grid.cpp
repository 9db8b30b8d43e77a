#include "lib/quant/grid.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "lib/core/error.h"
#include "lib/core/half.h"

namespace comera::quant {
namespace {

struct Facts {
  Grid grid;
  const char* name;
  int bits, codes;
  float zero;
};

constexpr Facts facts_with(Grid grid, const char* name, int bits, int codes) {
  return {grid, name, bits, codes, kernels::grid_zero(grid)};
}

constexpr std::array facts{facts_with(Grid::q8_0, "q8_0", 8, 255), facts_with(Grid::q4_1, "q4_1", 4, 16),
                           facts_with(Grid::q4_0, "q4_0", 4, 16), facts_with(Grid::q3_0, "q3_0", 3, 8),
                           facts_with(Grid::q2_0, "q2_0", 2, 4)};

const Facts& facts_of(Grid grid) { return facts[static_cast<std::size_t>(grid)]; }

float rounded(double value) { return half_to_float(float_to_half(static_cast<float>(value))); }

void put_half(float value, std::byte* bytes) {
  const std::uint16_t bits = float_to_half(value);
  std::memcpy(bytes, &bits, sizeof bits);
}

double loss_of(Grid grid, Step step, std::span<const double> values, std::span<const double> importance) {
  double loss = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double error = values[i] - level(grid, step, nearest(grid, step, values[i]));
    loss += (importance.empty() ? 1 : importance[i]) * error * error;
  }
  return loss;
}

// The least-squares scale, and with `affine` the least number too, for the codes that `step` gives.
Step refit(Grid grid, Step step, std::span<const double> values, std::span<const double> importance) {
  const bool affine = grid == Grid::q4_1;
  double weight = 0, sum_c = 0, sum_v = 0, sum_cc = 0, sum_cv = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double w = importance.empty() ? 1 : importance[i];
    const double c = nearest(grid, step, values[i]) - static_cast<double>(facts_of(grid).zero);
    weight += w, sum_c += w * c, sum_v += w * values[i], sum_cc += w * c * c, sum_cv += w * c * values[i];
  }
  if (!affine) return {sum_cc > 0 ? rounded(sum_cv / sum_cc) : step.scale, 0};
  const double spread = weight * sum_cc - sum_c * sum_c;
  if (!(spread > 0)) return step;
  const double scale = (weight * sum_cv - sum_c * sum_v) / spread;
  return {rounded(scale), rounded((sum_v - scale * sum_c) / weight)};
}

}  // namespace

const char* name_of(Grid grid) { return facts_of(grid).name; }
int bits_of(Grid grid) { return facts_of(grid).bits; }
int codes_of(Grid grid) { return facts_of(grid).codes; }
std::int64_t block_bytes(Grid grid) { return kernels::bytes_of_block(grid); }
std::int64_t line_bytes(Grid grid, std::int64_t count) {
  return kernels::GridLines{grid, 1, count, nullptr}.line_bytes();
}

std::optional<Grid> grid_named(std::string_view name) {
  for (const Facts& one : facts)
    if (name == one.name) return one.grid;
  return std::nullopt;
}

float level(Grid grid, Step step, int code) {
  return step.scale * (static_cast<float>(code) - facts_of(grid).zero) + step.least;
}

int nearest(Grid grid, Step step, double value) {
  if (step.scale == 0) return static_cast<int>(facts_of(grid).zero);
  const double code = (value - step.least) / step.scale + facts_of(grid).zero;
  return static_cast<int>(std::clamp(std::nearbyint(code), 0.0, static_cast<double>(facts_of(grid).codes - 1)));
}

Step best_step(Grid grid, std::span<const double> values, std::span<const double> importance) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  if (values.empty() || (*least == 0 && *most == 0)) return {};
  const double largest = std::abs(*least) > std::abs(*most) ? *least : *most;  // with its sign
  const Facts& grid_facts = facts_of(grid);
  Step best;
  double best_loss = -1;
  const auto consider = [&](Step step) {
    if (step.scale == 0 || !std::isfinite(step.scale) || !std::isfinite(step.least)) return;
    const double loss = loss_of(grid, step, values, importance);
    if (best_loss < 0 || loss < best_loss) best = step, best_loss = loss;
  };
  // The largest number lies on the last code, or beyond it: the fewer the codes, the more it pays. The two ends of q4_1
  // are cut apart from each other.
  const double shrink = grid_facts.bits >= 8 ? 0.98 : grid_facts.bits == 4 ? 0.6 : 0.4;
  constexpr int tries = 18, ends = 8, refits = 3;
  const auto part = [&](int i, int of) { return shrink + (1.04 - shrink) * i / of; };
  if (grid == Grid::q4_1) {
    const double middle = (*least + *most) / 2, half = (*most - *least) / 2;
    for (int i = 0; i <= ends; ++i)
      for (int k = 0; k <= ends; ++k)
        consider({rounded(half * (part(i, ends) + part(k, ends)) / (grid_facts.codes - 1)),
                  rounded(middle - half * part(i, ends))});
  }
  for (int i = 0; i <= tries && grid != Grid::q4_1; ++i) {
    const double scale = part(i, tries) * largest / static_cast<double>(grid_facts.zero);
    consider({rounded(scale), 0});
    if (grid == Grid::q4_0) consider({rounded(-scale), 0});  // its codes reach farther below zero than above
  }
  if (best_loss < 0) return {rounded(largest), 0};  // numbers of half precision have no finer step
  for (int i = 0; i < refits; ++i) consider(refit(grid, best, values, importance));
  return best;
}

void pack(Grid grid, Step step, std::span<const std::uint8_t> codes, std::byte* bytes) {
  std::memset(bytes, 0, static_cast<std::size_t>(block_bytes(grid)));
  put_half(step.scale, bytes);
  std::byte* rest = bytes + 2;
  if (grid == Grid::q4_1) put_half(step.least, rest), rest += 2;
  for (std::size_t i = 0; i < static_cast<std::size_t>(block); ++i) {
    const unsigned code = codes[i];
    switch (grid) {
      case Grid::q8_0: rest[i] = static_cast<std::byte>(static_cast<std::uint8_t>(code - 127U)); break;
      case Grid::q4_1:
      case Grid::q4_0: rest[i % 16] |= static_cast<std::byte>(code << (i < 16 ? 0 : 4)); break;
      case Grid::q3_0: rest[8 + i / 8] |= static_cast<std::byte>((code >> 2) << (i % 8)); [[fallthrough]];
      case Grid::q2_0: rest[i / 4] |= static_cast<std::byte>((code & 3U) << (2 * (i % 4))); break;
    }
  }
}

Block read_block(Grid grid, const std::byte* bytes) {
  const auto* raw = reinterpret_cast<const std::uint8_t*>(bytes);
  Block result{kernels::step_of_block(grid, raw)};
  for (std::size_t i = 0; i < result.codes.size(); ++i)
    result.codes[i] = kernels::grid_code(grid, raw, static_cast<int>(i));
  return result;
}

void unpack(Grid grid, const std::byte* bytes, float* values) {
  const Block read = read_block(grid, bytes);
  for (std::size_t i = 0; i < read.codes.size(); ++i) values[i] = level(grid, read.step, read.codes[i]);
}

void widen(Grid grid, const std::byte* bytes, std::byte* q4_0) {
  COMERA_CHECK(grid == Grid::q3_0 || grid == Grid::q2_0);
  const Block narrow = read_block(grid, bytes);
  const Step step{rounded(narrow.step.scale / 2), 0};
  // d (c - z) = (d / 2) (c' - 8)
  const int shift = 8 - static_cast<int>(2 * facts_of(grid).zero);
  std::array<std::uint8_t, block> codes{};
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::uint8_t>(2 * narrow.codes[i] + shift);
  pack(Grid::q4_0, step, codes, q4_0);
}

void decode_line(Grid grid, std::span<const std::byte> bytes, std::span<float> values) {
  float numbers[block];
  for (std::size_t at = 0; at < values.size(); at += static_cast<std::size_t>(block)) {
    unpack(grid, bytes.data() + static_cast<std::int64_t>(at) / block * block_bytes(grid), numbers);
    std::copy_n(numbers, std::min<std::size_t>(block, values.size() - at),
                values.begin() + static_cast<std::ptrdiff_t>(at));
  }
}

}  // namespace comera::quant
