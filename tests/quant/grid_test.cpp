#include "lib/quant/grid.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <random>

#include "lib/core/half.h"

using namespace comera;
using namespace comera::quant;

namespace {

std::vector<double> draws(std::size_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<double> normal;
  std::vector<double> values(count);
  for (double& value : values) value = normal(generator);
  return values;
}

double loss_of(Grid grid, Step step, const std::vector<double>& values, const std::vector<double>& importance = {}) {
  double loss = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double error = values[i] - level(grid, step, nearest(grid, step, values[i]));
    loss += (importance.empty() ? 1 : importance[i]) * error * error;
  }
  return loss;
}

}  // namespace

TEST_CASE("grid: every code comes back from its group as its level") {
  for (const Grid grid : all_grids) {
    INFO(name_of(grid));
    const Step step{half_to_float(float_to_half(0.37f)), grid == Grid::q4_1 ? half_to_float(float_to_half(-1.3f)) : 0};
    for (int from = 0; from < codes_of(grid); from += 7) {
      std::vector<std::uint8_t> codes;
      for (int i = 0; i < group_of(grid); ++i)
        codes.push_back(static_cast<std::uint8_t>((from + 3 * i) % codes_of(grid)));
      std::vector<std::byte> bytes(static_cast<std::size_t>(line_bytes(grid, group_of(grid))));
      pack(grid, step, codes, bytes.data());
      std::vector<float> values(codes.size());
      unpack(grid, bytes.data(), values);
      for (std::size_t i = 0; i < values.size(); ++i) {
        CHECK(values[i] == level(grid, step, codes[i]));
        CHECK(nearest(grid, step, values[i]) == codes[i]);
      }
    }
    CHECK(grid_named(name_of(grid)) == grid);
    CHECK(in_groups(grid, group_of(grid)) == grid);
  }
  CHECK_FALSE(grid_named("q9_9"));
  CHECK(in_groups(Grid::q3_0g64, 128) == Grid::q3_0g128);
  CHECK_FALSE(in_groups(Grid::q8_0, 64));
  CHECK_FALSE(in_groups(Grid::q2_0, 48));
}

// tests/io/gguf_test.cpp compares more blocks with the package gguf.
TEST_CASE("grid: blocks of q4_0, q4_1 and q8_0 are those of GGUF") {
  std::byte bytes[34]{};
  const std::uint16_t half = float_to_half(0.5f), least = float_to_half(-2.0f);
  std::memcpy(bytes, &half, 2);
  std::vector<float> values(32);
  for (int i = 2; i < 34; ++i) bytes[i] = static_cast<std::byte>(i * 7);
  unpack(Grid::q4_0, bytes, values);
  CHECK(values[0] == 0.5f * ((2 * 7 & 15) - 8));
  CHECK(values[16] == 0.5f * ((2 * 7 >> 4) - 8));
  unpack(Grid::q8_0, bytes, values);
  CHECK(values[31] == 0.5f * static_cast<float>(static_cast<std::int8_t>(33 * 7)));
  std::memcpy(bytes + 2, &least, 2);
  unpack(Grid::q4_1, bytes, values);
  CHECK(values[0] == 0.5f * (4 * 7 & 15) - 2.0f);
}

TEST_CASE("grid: codes of 2 and 3 bits follow each other without gaps") {
  std::vector<std::uint8_t> codes(32);
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = i % 8;
  std::byte triples[14], pairs[10];
  pack(Grid::q3_0, {1, 0}, codes, triples);
  for (int i = 2; i < 14; i += 3) {  // 111 110 101 100 011 010 001 000
    CHECK(triples[i] == std::byte{0x88});
    CHECK(triples[i + 1] == std::byte{0xC6});
    CHECK(triples[i + 2] == std::byte{0xFA});
  }
  for (std::uint8_t& code : codes) code %= 4;
  pack(Grid::q2_0, {1, 0}, codes, pairs);
  for (int i = 2; i < 10; ++i) CHECK(pairs[i] == std::byte{0xE4});  // 11 10 01 00
}

TEST_CASE("grid: a line is groups, the last of which may be short") {
  CHECK(line_bytes(Grid::q4_0, 32) == 18);
  CHECK(line_bytes(Grid::q4_0, 33) == 36);
  CHECK(line_bytes(Grid::q3_0, 288) == 9 * 14);
  CHECK(line_bytes(Grid::q2_0, 0) == 0);
  CHECK(line_bytes(Grid::q2_0g64, 64) == 2 + 2 * 8);
  CHECK(line_bytes(Grid::q3_0g128, 288) == 3 * 2 + 9 * 12);
  CHECK(line_bytes(Grid::q4_0g128, 130) == 2 * 2 + 5 * 16);
  std::vector<std::byte> bytes(20);
  std::vector<std::uint8_t> codes(32, 3);
  pack(Grid::q2_0, {2, 0}, codes, bytes.data());
  pack(Grid::q2_0, {4, 0}, codes, bytes.data() + 10);
  std::vector<float> line(35);
  decode_line(Grid::q2_0, bytes, line);
  CHECK(line[31] == 3);
  CHECK(line[34] == 6);
  // Groups of 64 and 7 numbers.
  std::vector<std::byte> wide(static_cast<std::size_t>(line_bytes(Grid::q3_0g64, 71)));
  codes.assign(64, 5);
  pack(Grid::q3_0g64, {2, 0}, codes, wide.data());
  codes.resize(7);
  pack(Grid::q3_0g64, {4, 0}, codes, wide.data() + line_bytes(Grid::q3_0g64, 64));
  line.resize(71);
  decode_line(Grid::q3_0g64, wide, line);
  CHECK(line[63] == 3);
  CHECK(line[64] == 6);
  CHECK(line[70] == 6);
}

TEST_CASE("grid: the best step loses no more than any step of a fine search") {
  for (const Grid grid : all_grids) {
    for (unsigned seed = 1; seed < 6; ++seed) {
      INFO(name_of(grid) << " " << seed);
      const auto count = static_cast<std::size_t>(group_of(grid));
      const std::vector<double> values = draws(count, seed);
      std::vector<double> importance = draws(count, seed + 100);
      for (double& one : importance) one = std::exp2(one / 2);  // those of a group in GPTQ lie within a few times
      const double own = loss_of(grid, best_step(grid, values, importance), values, importance);
      double least = 1e9;
      for (int i = 1; i < 400; ++i)
        for (int k = -40; k <= 40; ++k) {
          const auto scale = static_cast<float>((k > 0 ? 0.01 : -0.01) * i * (grid == Grid::q8_0 ? 0.01 : 1));
          if (grid != Grid::q4_1 && std::abs(k) != 1) continue;
          const Step step = grid == Grid::q4_1 ? Step{std::abs(scale), 0.1f * static_cast<float>(k)} : Step{scale, 0};
          least = std::min(least, loss_of(grid, step, values, importance));
        }
      CHECK(own <= 1.1 * least);
    }
  }
}

TEST_CASE("grid: zeros, one number and tiny numbers have steps") {
  for (const Grid grid : all_grids) {
    INFO(name_of(grid));
    const std::vector<double> zeros(32), one{3.0}, tiny(32, 1e-12);
    const Step none = best_step(grid, zeros);
    CHECK(none.scale == 0);
    const Step step = best_step(grid, one);
    CHECK(level(grid, step, nearest(grid, step, 3.0)) == Approx(3).epsilon(0.01));
    CHECK(std::isfinite(best_step(grid, tiny).scale));
  }
}

TEST_CASE("grid: lines of 2 and 3 bits and of larger groups have the same numbers in q4_0") {
  constexpr std::int64_t count = 150;
  for (const Grid grid : all_grids) {
    if (bits_of(grid) > 4 || grid == Grid::q4_1) continue;
    INFO(name_of(grid));
    std::vector<std::byte> narrow(static_cast<std::size_t>(line_bytes(grid, count))),
        wide(static_cast<std::size_t>(line_bytes(Grid::q4_0, count)));
    float scale = 0.37f;
    for (std::int64_t first = 0; first < count; first += group_of(grid)) {
      std::vector<std::uint8_t> codes;
      for (std::int64_t i = 0; i < std::min(group_of(grid), count - first); ++i)
        codes.push_back(static_cast<std::uint8_t>(5 * i % codes_of(grid)));
      const Step step{half_to_float(float_to_half(scale)), 0};
      pack(grid, step, codes, narrow.data() + line_bytes(grid, first));
      scale = first == 0 ? -1.5f : 0x1p-13f;
    }
    widen_line(grid, narrow.data(), count, wide.data());
    std::vector<float> wanted(count), found(count);
    decode_line(grid, narrow, wanted);
    decode_line(Grid::q4_0, wide, found);
    CHECK(found == wanted);
  }
}
