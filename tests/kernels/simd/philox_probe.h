// Plain functions around kernels/cpu/common/philox_simd.h, one copy per instruction set.
#pragma once

#include "kernels/philox.h"

namespace comera::kernels {

namespace cpu_v3 {
void philox_bits(const DropoutRule& rule, std::int64_t sample, std::int64_t token, std::uint64_t first_block,
                 std::int64_t blocks, std::uint8_t* out);
void philox_lanes_of(const std::uint8_t* bits, std::int64_t count, float* lanes);
}  // namespace cpu_v3
namespace cpu_v4 {
void philox_bits(const DropoutRule& rule, std::int64_t sample, std::int64_t token, std::uint64_t first_block,
                 std::int64_t blocks, std::uint8_t* out);
void philox_lanes_of(const std::uint8_t* bits, std::int64_t count, float* lanes);
}  // namespace cpu_v4

}  // namespace comera::kernels
