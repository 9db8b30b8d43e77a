#include "lib/io/gguf/gguf_blocks.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "lib/core/error.h"
#include "lib/core/half.h"
#include "lib/quant/grid.h"

namespace comera::io {
namespace {

using Bytes = const std::uint8_t*;

struct Known {
  GgufType type;
  GgufFormat format;
  void (*convert)(Bytes block, float* out);  // one block
};

float half_at(Bytes p) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, p, sizeof bits);
  return half_to_float(bits);
}

void from_f32(Bytes b, float* out) { std::memcpy(out, b, sizeof *out); }
void from_f16(Bytes b, float* out) { *out = half_at(b); }
void from_bf16(Bytes b, float* out) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, b, sizeof bits);
  *out = bf16_to_float(bits);
}

// 32 numbers of 4 bits: byte j holds numbers j and j + 16.
int nibble(Bytes codes, int i) { return i < 16 ? codes[i] & 15 : codes[i - 16] >> 4; }
// Their fifth bits, bit i of a little-endian word.
int fifth(Bytes high, int i) { return (high[i / 8] >> (i % 8) & 1) << 4; }

template <quant::Grid grid>
void from_grid(Bytes b, float* out) {
  quant::unpack(grid, reinterpret_cast<const std::byte*>(b), {out, static_cast<std::size_t>(quant::block)});
}
void from_q5_0(Bytes b, float* out) {
  const float scale = half_at(b);
  for (int i = 0; i < 32; ++i) out[i] = scale * static_cast<float>((nibble(b + 6, i) | fifth(b + 2, i)) - 16);
}
void from_q5_1(Bytes b, float* out) {
  const float scale = half_at(b), least = half_at(b + 2);
  for (int i = 0; i < 32; ++i) out[i] = scale * static_cast<float>(nibble(b + 8, i) | fifth(b + 4, i)) + least;
}

// Two scales and their 12 bytes of packed 6-bit scales and minima, then 128 bytes of codes: 64 numbers per 32 bytes,
// the first half of them in the low bits.
void from_q4_k(Bytes b, float* out) {
  const float scale = half_at(b), least = half_at(b + 2);
  const Bytes packed = b + 4;
  for (int part = 0; part < 8; ++part) {
    const int s = part < 4 ? packed[part] & 63 : (packed[part + 4] & 15) | packed[part - 4] >> 6 << 4,
              m = part < 4 ? packed[part + 4] & 63 : packed[part + 4] >> 4 | packed[part] >> 6 << 4;
    const float d = scale * static_cast<float>(s), low = least * static_cast<float>(m);
    const Bytes codes = b + 16 + part / 2 * 32;
    for (int i = 0; i < 32; ++i) {
      const int code = part % 2 == 0 ? codes[i] & 15 : codes[i] >> 4;
      out[part * 32 + i] = d * static_cast<float>(code) - low;
    }
  }
}

// 128 bytes of low bits, 64 bytes of two high bits, 16 scales of 16 numbers each, and the scale of these. 128 numbers
// lie in four runs of 32: the low bits of runs 2 and 3 are the upper halves of the bytes of runs 0 and 1.
void from_q6_k(Bytes b, float* out) {
  const float scale = half_at(b + 208);
  for (int i = 0; i < 256; ++i) {
    const int half = i / 128, run = i % 128 / 32, at = i % 32;
    const int low = b[half * 64 + run % 2 * 32 + at] >> (run / 2 * 4) & 15,
              high = b[128 + half * 32 + at] >> (run * 2) & 3;
    const auto part = static_cast<std::int8_t>(b[192 + i / 16]);
    out[i] = scale * static_cast<float>(part) * static_cast<float>((low | high << 4) - 32);
  }
}

constexpr std::array known{Known{GgufType::F32, {"F32", 1, 4}, from_f32},
                           Known{GgufType::F16, {"F16", 1, 2}, from_f16},
                           Known{GgufType::Q4_0, {"Q4_0", 32, 18}, from_grid<quant::Grid::q4_0>},
                           Known{GgufType::Q4_1, {"Q4_1", 32, 20}, from_grid<quant::Grid::q4_1>},
                           Known{GgufType::Q5_0, {"Q5_0", 32, 22}, from_q5_0},
                           Known{GgufType::Q5_1, {"Q5_1", 32, 24}, from_q5_1},
                           Known{GgufType::Q8_0, {"Q8_0", 32, 34}, from_grid<quant::Grid::q8_0>},
                           Known{GgufType::Q4_K, {"Q4_K", 256, 144}, from_q4_k},
                           Known{GgufType::Q6_K, {"Q6_K", 256, 210}, from_q6_k},
                           Known{GgufType::BF16, {"BF16", 1, 2}, from_bf16}};

const Known* find(std::uint32_t type) {
  const auto* const found = std::find_if(
      known.begin(), known.end(), [&](const Known& one) { return static_cast<std::uint32_t>(one.type) == type; });
  return found == known.end() ? nullptr : found;
}
const Known& known_type(GgufType type) {
  const Known* found = find(static_cast<std::uint32_t>(type));
  COMERA_CHECK(found != nullptr);
  return *found;
}

}  // namespace

std::optional<GgufFormat> gguf_format(std::uint32_t type) {
  const Known* found = find(type);
  return found ? std::optional(found->format) : std::nullopt;
}
const char* name_of(GgufType type) { return known_type(type).format.name; }
bool is_quantised(GgufType type) { return known_type(type).format.block > 1; }

void dequantise(GgufType type, std::span<const std::byte> bytes, std::span<float> out) {
  const Known& one = known_type(type);
  const auto blocks = static_cast<std::int64_t>(out.size()) / one.format.block;
  COMERA_CHECK(blocks * one.format.block == static_cast<std::int64_t>(out.size()));
  COMERA_CHECK(blocks * one.format.bytes == static_cast<std::int64_t>(bytes.size()));
  const auto* from = reinterpret_cast<Bytes>(bytes.data());
  for (std::int64_t i = 0; i < blocks; ++i) one.convert(from + i * one.format.bytes, out.data() + i * one.format.block);
}

}  // namespace comera::io
