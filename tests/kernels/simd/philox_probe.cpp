#include "tests/kernels/simd/philox_probe.h"

#include "kernels/cpu/common/philox_simd.h"

namespace comera::kernels::COMERA_CPU {

void philox_bits(const DropoutRule& rule, std::int64_t sample, std::int64_t token, std::uint64_t first_block,
                 std::int64_t blocks, std::uint8_t* out) {
  keep_bits(rule, sample, token, first_block, blocks, out);
}

void philox_lanes_of(const std::uint8_t* bits, std::int64_t count, float* lanes) {
  for (std::int64_t i = 0; i < count; i += F::width) store(lanes + i, keep(mask_of(bits + i / 8), set(1.0f)));
}

}  // namespace comera::kernels::COMERA_CPU
