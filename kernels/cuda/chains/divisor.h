// Division of an index by a number that the host knows before the launch: a multiplication and a shift. The hardware
// has no division; the general one takes some twenty instructions.
#pragma once

#include "kernels/cuda/common/device.h"

namespace comera::kernels::cuda {

// Exact for 0 <= n < 2^31 and 1 <= d < 2^31; empty shapes have d = 0, and then no n. With 2^(s - 1) < d <= 2^s and M =
// ceil(2^(31 + s) / d), which has 32 bits, n M / 2^(31 + s) exceeds n / d by less than n / 2^31 / d < 1 / d (Granlund
// and Montgomery 1994).
class Divisor {
 public:
  Divisor() = default;
  explicit Divisor(int d) : value_(static_cast<std::uint32_t>(d > 1 ? d : 1)) {
    while ((std::uint64_t{1} << shift_) < value_) ++shift_;
    multiplier_ = static_cast<std::uint32_t>(((std::uint64_t{1} << (31 + shift_)) + value_ - 1) / value_);
  }

  COMERA_DEVICE int quotient(int n) const {
    const std::uint32_t twice = static_cast<std::uint32_t>(n) * 2;
    return static_cast<int>(static_cast<std::uint32_t>(std::uint64_t{twice} * multiplier_ >> 32) >> shift_);
  }
  // n is replaced by the quotient.
  COMERA_DEVICE int split(int& n) const {
    const int all = n;
    n = quotient(all);
    return all - n * static_cast<int>(value_);
  }
  COMERA_DEVICE int remainder(int n) const { return split(n); }
  COMERA_DEVICE int value() const { return static_cast<int>(value_); }

 private:
  std::uint32_t value_ = 1, multiplier_ = std::uint32_t{1} << 31, shift_ = 0;
};

}  // namespace comera::kernels::cuda
