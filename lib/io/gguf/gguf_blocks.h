// Number formats of GGUF tensors and their conversion to float. The formats are those of ggml: a block of 32 numbers
// has one or two scales in half precision, a block of 256 numbers ("K-quants") has scales of 4 to 8 bits under one or
// two scales in half precision.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace comera::io {

// The numbers of the file.
enum class GgufType : std::uint32_t {
  F32 = 0,
  F16 = 1,
  Q4_0 = 2,
  Q4_1 = 3,
  Q5_0 = 6,
  Q5_1 = 7,
  Q8_0 = 8,
  Q4_K = 12,
  Q6_K = 14,
  BF16 = 30
};

struct GgufFormat {
  const char* name;
  std::int64_t block;  // numbers of a block; a row has whole blocks
  std::int64_t bytes;  // of a block
};

// None for a type that is not read.
std::optional<GgufFormat> gguf_format(std::uint32_t type);
const char* name_of(GgufType type);
bool is_quantised(GgufType type);

// `bytes` are the blocks of `out.size()` numbers, a whole number of blocks.
void dequantise(GgufType type, std::span<const std::byte> bytes, std::span<float> out);

}  // namespace comera::io
