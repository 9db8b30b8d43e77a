#include <catch2/catch.hpp>
#include <vector>

#include "tests/kernels/simd/philox_probe.h"

namespace comera::kernels {
namespace {

struct Isa {
  decltype(&cpu_v3::philox_bits) bits;
  decltype(&cpu_v3::philox_lanes_of) lanes;
};

std::vector<Isa> machine() {
  std::vector<Isa> list;
  if (__builtin_cpu_supports("x86-64-v3")) list.push_back({cpu_v3::philox_bits, cpu_v3::philox_lanes_of});
  if (__builtin_cpu_supports("x86-64-v4")) list.push_back({cpu_v4::philox_bits, cpu_v4::philox_lanes_of});
  return list;
}

void check_against_scalar(const Isa& isa, const DropoutRule& rule, std::int64_t sample, std::int64_t token,
                          std::uint64_t first, int blocks) {
  std::vector<std::uint8_t> bits((blocks + 15) / 16 * 16);
  isa.bits(rule, sample, token, first, blocks, bits.data());
  std::vector<float> lanes(bits.size() * 8);
  isa.lanes(bits.data(), static_cast<std::int64_t>(lanes.size()), lanes.data());
  for (int i = 0; i < blocks * 8; ++i) {
    const bool kept = rule.factor(sample, token, first * 8 + i) != 0;
    INFO("feature " << i);
    REQUIRE(((bits[i / 8] >> i % 8) & 1) == kept);
    REQUIRE(lanes[i] == (kept ? 1.0f : 0.0f));
  }
}

}  // namespace

TEST_CASE("vectors of Philox blocks give the bits of the scalar rule") {
  StepScalars scalars;
  scalars.seed = 20240607;
  scalars.step = 41;
  for (const Isa& isa : machine())
    for (double p : {0.1, 0.5, 1.0 / 65536, 0.99999, 1.0}) {
      const DropoutRule rule(Dropout{.probability = p, .site = 7, .scalars = &scalars});
      check_against_scalar(isa, rule, 3, 0, 0, 1);
      check_against_scalar(isa, rule, 123456789012345, 511, attention_feature(11, 0) / 8, 16);
      check_against_scalar(isa, rule, 0, 70000, 5, 37);
    }
}

}  // namespace comera::kernels
