// Dropout inside a kernel: the rule of kernels/philox.h, read from device memory by every thread that uses it.
#pragma once

#include "kernels/cuda/common/device.h"
#include "kernels/philox.h"

namespace comera::kernels::cuda {

// The dropout factor of each feature of token row `row` (of [K, ...]). It reads the step's scalars and sample numbers,
// so pointers to device memory allow calls from device code only.
struct DropoutOfRow {
  DropoutRule rule;
  std::int64_t sample = 0, token = 0;

  COMERA_DEVICE DropoutOfRow(const Dropout& dropout, std::int64_t row)
      : DropoutOfRow(DropoutRule(dropout), dropout, row) {}
  // For many rows, the rule is read once by the caller.
  COMERA_DEVICE DropoutOfRow(const DropoutRule& unpacked, const Dropout& dropout, std::int64_t row) : rule(unpacked) {
    if (rule.threshold == 0) return;
    sample = dropout.samples[row / dropout.tokens_per_sample];
    token = row % dropout.tokens_per_sample;
  }
  COMERA_DEVICE bool active() const { return rule.threshold != 0; }
  COMERA_DEVICE float operator()(std::int64_t feature) const {
    return static_cast<float>(rule.factor(sample, token, static_cast<std::uint64_t>(feature)));
  }
  // The factors of features 8 * block .. 8 * block + 7 from one Philox call.
  COMERA_DEVICE void eight(std::int64_t block, float* factors) const {
    const PhiloxBlock bits = rule.bits(sample, token, static_cast<std::uint64_t>(block));
    const float scale = static_cast<float>(rule.scale);
    for (std::uint32_t i = 0; i < 8; ++i) factors[i] = lane16(bits, i) < rule.threshold ? 0.0f : scale;
  }
};

}  // namespace comera::kernels::cuda
