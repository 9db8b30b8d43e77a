// Random numbers for the data: pure functions of (seed, purpose, counters) by Philox, independent of those of the
// model.
#pragma once

#include <cstdint>

#include "kernels/philox.h"

namespace comera::data {

enum class Purpose : std::uint32_t { rows = 1, files, sequences, steps, mask, sample, generate, augment };

class Random {
 public:
  // `epoch`: epoch of the data, or 0 if the draws must not depend on it.
  Random(std::uint64_t seed, std::uint64_t epoch, Purpose purpose)
      : key_(kernels::step_key(kernels::mix64(seed ^ 0x64617461u), epoch)),
        purpose_(static_cast<std::uint32_t>(purpose)) {}

  kernels::PhiloxBlock draw(std::uint64_t counter, std::uint32_t position = 0) const {
    return kernels::philox4x32_10(
        {{purpose_, static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32), position}}, key_);
  }

 private:
  kernels::PhiloxKey key_;
  std::uint32_t purpose_;
};

// A permutation of [0, size) in constant memory: a balanced Feistel network of 8 rounds over the next power of 4,
// repeated until the value is in the range (Black & Rogaway 2002, "Ciphers with arbitrary finite domains").
class Permutation {
 public:
  Permutation(std::int64_t size, const Random& random, std::uint64_t counter = 0)
      : size_(static_cast<std::uint64_t>(size)) {
    while (size_ > std::uint64_t{1} << (2 * half_bits_)) ++half_bits_;
    for (std::uint32_t i = 0; i < 4; ++i) {
      const kernels::PhiloxBlock block = random.draw(counter, i);
      round_keys_[2 * i] = std::uint64_t{block.word[0]} << 32 | block.word[1];
      round_keys_[2 * i + 1] = std::uint64_t{block.word[2]} << 32 | block.word[3];
    }
  }

  std::int64_t operator()(std::int64_t index) const {
    auto value = static_cast<std::uint64_t>(index);
    do value = once(value);
    while (value >= size_);
    return static_cast<std::int64_t>(value);
  }

 private:
  std::uint64_t once(std::uint64_t value) const {
    const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
    std::uint64_t left = value >> half_bits_, right = value & mask;
    for (std::uint64_t key : round_keys_) {
      const std::uint64_t mixed = left ^ (kernels::mix64(right ^ key) & mask);
      left = right;
      right = mixed;
    }
    return left << half_bits_ | right;
  }

  std::uint64_t size_;
  int half_bits_ = 1;
  std::uint64_t round_keys_[8];
};

}  // namespace comera::data
