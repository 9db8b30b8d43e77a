#include "kernels/philox.h"

#include <Random123/philox.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <set>
#include <vector>

using namespace comera::kernels;

TEST_CASE("philox equals Random123") {
  std::mt19937 random(7);
  for (int i = 0; i < 1000; ++i) {
    PhiloxBlock counter{};
    PhiloxKey key{};
    r123::Philox4x32::ctr_type c;
    r123::Philox4x32::key_type k;
    for (int j = 0; j < 4; ++j) c[j] = counter.word[j] = random();
    for (int j = 0; j < 2; ++j) k[j] = key.word[j] = random();
    const auto wanted = r123::Philox4x32()(c, k);
    const PhiloxBlock got = philox4x32_10(counter, key);
    for (int j = 0; j < 4; ++j) REQUIRE(got.word[j] == wanted[j]);
  }
}

TEST_CASE("philox equals the published known answers") {  // Random123, kat_vectors
  constexpr PhiloxBlock zero = philox4x32_10({{0, 0, 0, 0}}, {{0, 0}});
  static_assert(zero.word[0] == 0x6627e8d5u && zero.word[1] == 0xe169c58du && zero.word[2] == 0xbc57ac4cu &&
                zero.word[3] == 0x9b00dbd8u);
  constexpr std::uint32_t ones = 0xffffffffu;
  constexpr PhiloxBlock full = philox4x32_10({{ones, ones, ones, ones}}, {{ones, ones}});
  static_assert(full.word[0] == 0x408f276du && full.word[1] == 0x41c83b0eu && full.word[2] == 0xa20bc7c6u &&
                full.word[3] == 0x6d5451fdu);
}

TEST_CASE("keys and counters are distinct for distinct steps, seeds, samples and sites") {
  std::set<std::pair<std::uint32_t, std::uint32_t>> keys;
  for (std::uint64_t seed = 0; seed < 40; ++seed)
    for (std::uint64_t step = 0; step < 40; ++step) {
      const PhiloxKey key = step_key(seed, step);
      REQUIRE(keys.insert({key.word[0], key.word[1]}).second);
    }
  std::set<std::vector<std::uint32_t>> counters;
  for (std::uint32_t site = 0; site < 50; ++site)
    for (std::int64_t sample : {std::int64_t{0}, std::int64_t{1}, std::int64_t{1} << 32, (std::int64_t{1} << 32) + 1,
                                std::int64_t{5} << 32}) {
      const PhiloxBlock c = dropout_counter(site, sample, 3, 4);
      REQUIRE(counters.insert({c.word[0], c.word[1], c.word[2], c.word[3]}).second);
    }
}

TEST_CASE("thresholds and scales of dropout") {
  CHECK(drop_threshold(0.0) == 0);
  CHECK(drop_threshold(0.1) == 6554);  // 6553.6
  CHECK(drop_threshold(0.5) == 32768);
  CHECK(drop_threshold(1.0) == 65536);
  CHECK(keep_scale(32768) == 2.0);
  CHECK(keep_scale(65536) == 0.0);
  CHECK(DropoutRule(Dropout{}).factor(1, 2, 3) == 1.0);
}

TEST_CASE("masks have the mean of their probability, for rows and columns") {
  StepScalars scalars;
  scalars.seed = 11;
  scalars.step = 3;
  Dropout dropout;
  dropout.probability = 0.1;
  dropout.site = 5;
  dropout.scalars = &scalars;
  const DropoutRule rule(dropout);
  const int samples = 40, tokens = 32, features = 64;
  double dropped = 0;
  std::vector<double> by_feature(features), by_sample(samples);
  for (int s = 0; s < samples; ++s)
    for (int t = 0; t < tokens; ++t)
      for (int f = 0; f < features; ++f)
        if (rule.factor(s, t, f) == 0) ++dropped, ++by_feature[f], ++by_sample[s];
  const double n = samples * tokens * features, p = 6554.0 / 65536;
  // Five standard deviations of a binomial count. A wrong rule exceeds this; a right one does so once in two million.
  const auto bound = [p](double count) { return 5 * std::sqrt(count * p * (1 - p)); };
  CHECK(std::abs(dropped - n * p) < bound(n));
  for (double d : by_feature) CHECK(std::abs(d - n / features * p) < bound(n / features));
  for (double d : by_sample) CHECK(std::abs(d - n / samples * p) < bound(n / samples));
}

TEST_CASE("lanes of a block are the low and high halves of its words") {
  constexpr PhiloxBlock block{{0x00020001u, 0x00040003u, 0x00060005u, 0x00080007u}};
  for (std::uint32_t lane = 0; lane < 8; ++lane) CHECK(lane16(block, lane) == lane + 1);
}
