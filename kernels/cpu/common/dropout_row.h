// Dropout of one row of a [K, N] tensor, applied to vectors as they are computed.
#pragma once

#include "kernels/cpu/common/philox_simd.h"
#include "kernels/cpu/common/simd.h"

namespace comera::kernels::COMERA_CPU {

constexpr std::int64_t dropout_row_bytes(std::int64_t columns) {
  return keep_bytes(tiles_of<std::int64_t>(columns, 8));
}

class DropoutRow {
 public:
  // `bits` has room for dropout_row_bytes(columns). Without dropout it is not accessed.
  DropoutRow(const Dropout& dropout, const DropoutRule& rule, std::int64_t row, std::int64_t columns,
             std::uint8_t* bits)
      : bits_(rule.threshold == 0 ? nullptr : bits), scale_(set(static_cast<float>(rule.scale))) {
    if (!bits_) return;
    const std::int64_t sample = dropout.samples[row / dropout.tokens_per_sample],
                       token = row % dropout.tokens_per_sample;
    keep_bits(rule, sample, token, 0, tiles_of<std::int64_t>(columns, 8), bits);
  }
  bool active() const { return bits_ != nullptr; }
  // x holds features i, i + 1, ...; i is a multiple of the vector width.
  F operator()(F x, std::int64_t i) const { return bits_ ? keep(mask_of(bits_ + i / 8), x * scale_) : x; }

 private:
  const std::uint8_t* bits_;
  F scale_;
};

}  // namespace comera::kernels::COMERA_CPU
