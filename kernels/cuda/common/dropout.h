// Dropout inside a kernel: the mask rule of kernels/philox.h.
#pragma once

#include "kernels/cuda/common/device.h"
#include "kernels/philox.h"

namespace comera::kernels::cuda {

// A Dropout as a kernel's parameter. The host computes threshold and scale, which need double precision.
struct RowDropout {
  std::uint32_t threshold = 0, site = 0, tokens_per_sample = 1;
  float scale = 1;
  const StepScalars* scalars = nullptr;
  const std::int64_t* samples = nullptr;

  RowDropout() = default;
  explicit RowDropout(const Dropout& dropout) {
    if (dropout.probability <= 0) return;
    threshold = drop_threshold(dropout.probability), site = dropout.site;
    tokens_per_sample = static_cast<std::uint32_t>(dropout.tokens_per_sample);
    scale = static_cast<float>(keep_scale(threshold));
    scalars = dropout.scalars, samples = dropout.samples;
  }
  COMERA_DEVICE bool active() const { return threshold != 0; }
};

// What a mask needs from device memory. The constructors of these two only load it; so a kernel can have these loads in
// flight together with those of its rows.
struct StepOfDropout {
  bool active;
  std::uint64_t seed = 0, step = 0;
  COMERA_DEVICE explicit StepOfDropout(const RowDropout& dropout) : active(dropout.active()) {
    if (active) seed = dropout.scalars->seed, step = dropout.scalars->step;
  }
  // For two dropouts of the same step.
  COMERA_DEVICE StepOfDropout(const RowDropout& a, const RowDropout& b) : StepOfDropout(a.active() ? a : b) {}
  COMERA_DEVICE PhiloxKey key() const { return active ? step_key(seed, step) : PhiloxKey{}; }
};
struct TokenOfDropout {
  std::int64_t sample = 0;
  std::uint32_t token = 0;
  TokenOfDropout() = default;
  COMERA_DEVICE TokenOfDropout(const RowDropout& dropout, std::int64_t row) {
    if (!dropout.active()) return;
    const std::uint32_t at = static_cast<std::uint32_t>(row);  // a division in 64 bits takes several times as long
    sample = dropout.samples[at / dropout.tokens_per_sample], token = at % dropout.tokens_per_sample;
  }
};

// The dropout factors of a token row.
class DropoutOfRow {
 public:
  COMERA_DEVICE DropoutOfRow(const RowDropout& dropout, PhiloxKey key, const TokenOfDropout& token)
      : key_(key),
        counter_(dropout_counter(dropout.site, token.sample, token.token, 0)),
        threshold_(dropout.threshold),
        scale_(dropout.scale) {}
  COMERA_DEVICE bool active() const { return threshold_ != 0; }
  // Multiplies features 8 * block .. 8 * block + 7 by their factors, which come from one Philox call.
  COMERA_DEVICE void apply(std::int64_t block, float (&x)[8]) const {
    if (!active()) return;
    PhiloxBlock counter = counter_;
    counter.word[3] = static_cast<std::uint32_t>(block);
    const PhiloxBlock bits = philox4x32_10(counter, key_);
#pragma unroll
    for (std::uint32_t i = 0; i < 8; ++i) x[i] *= lane16(bits, i) < threshold_ ? 0.0f : scale_;
  }

 private:
  PhiloxKey key_;
  PhiloxBlock counter_;
  std::uint32_t threshold_;
  float scale_;
};

}  // namespace comera::kernels::cuda
