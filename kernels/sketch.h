// Random projections P [n, r] with E[P P^T] = I, for gradients from projected activations (CompAct: Shamshoum et al.
// 2025, arXiv 2410.15352). P is a function of a key and is drawn again for each use; it is never stored.
//
// normal: entries z / sqrt(r), where z is a sum of 32 fair coin flips of variance 1. It stands for a normal number:
//   its kurtosis is 3 - 1/16, and every backend gives the same bits. |P P^T G - G| / |G| is sqrt((n + 1) / r) in the
//   mean square, up to 1 / (32 r).
// sparse: +-2 / sqrt(r) with probability 1/8 each, else 0 (Achlioptas 2003, with density 1/4).
// orthonormal: sqrt(n / r) D C S with random signs D, the cosine transform C [n, n] and r of its columns drawn without
//   repetition, S. P^T P = (n / r) I, and the error is sqrt(n / r - 1) for any G.
// count: one entry +1 or -1 per row (count sketch: Charikar et al. 2002), so X P is a sum of columns: n additions per
//   token instead of n r. The rows [b r, (b + 1) r) are block b, whose row i has its entry in column (i + shift of b)
//   mod r. Rows of a block never share a column, so the error is that of orthonormal P in the mean square where r
//   divides n.
//
// Random numbers have the key of (seed, step / refresh), so that P stays for `refresh` steps, and the counter {site,
// row, column / 4, use}.
#pragma once

#include <cmath>

#include "kernels/philox.h"

namespace comera::kernels {

enum class SketchKind : std::uint8_t { normal, sparse, orthonormal, count };

struct Sketch {
  SketchKind kind = SketchKind::normal;
  std::int64_t inputs = 0, rank = 0;  // n, r; below 2^24
  std::int64_t refresh = 1;           // steps between new draws
  std::uint32_t site = 0;             // sketches of one site and shape are equal

  bool operator==(const Sketch&) const = default;
};

struct DrawSketch {
  Sketch sketch;
  double scale = 1;  // of all entries
  const StepScalars* scalars = nullptr;
  bool transposed = false;  // p is P^T [r, n]
  void* p = nullptr;        // [n, r], of the activation dtype
};

// z = X P for a count sketch, X [K, n] and z [K, r].
struct SketchColumns {
  Sketch sketch;
  const StepScalars* scalars = nullptr;
  std::int64_t tokens = 0;  // K
  const void* x = nullptr;
  void* z = nullptr;
};

// result += scale P t for a count sketch, t [r, N] and result [n, N] of the parameters' type.
struct SketchRows {
  Sketch sketch;
  double scale = 1;
  const StepScalars* scalars = nullptr;
  std::int64_t out = 0;  // N
  const void* t = nullptr;
  void* result = nullptr;
};

constexpr double flops(const DrawSketch&) { return 0; }
constexpr double flops(const SketchColumns& a) { return 2.0 * static_cast<double>(a.tokens * a.sketch.inputs); }
constexpr double flops(const SketchRows& a) { return 2.0 * static_cast<double>(a.sketch.inputs * a.out); }

COMERA_HD constexpr int bits_set(std::uint32_t x) {
  x -= x >> 1 & 0x55555555u;
  x = (x & 0x33333333u) + (x >> 2 & 0x33333333u);
  return static_cast<int>(((x + (x >> 4)) & 0x0F0F0F0Fu) * 0x01010101u >> 24);
}

// cos(pi / 2 t) for 0 <= t <= 1, to 1e-7: the series in (pi / 2 t)^2.
COMERA_HD inline float cosine_of_quarter(float t) {
  const float s = t * t;
  float y = -6.3866031e-9f;
  y = fmaf(y, s, 4.7108747e-7f);
  y = fmaf(y, s, -2.5202042e-5f);
  y = fmaf(y, s, 9.1926027e-4f);
  y = fmaf(y, s, -2.0863481e-2f);
  y = fmaf(y, s, 2.5366951e-1f);
  y = fmaf(y, s, -1.2337006f);
  return fmaf(y, s, 1.0f);
}

// The entries of one sketch.
class SketchRule {
 public:
  COMERA_HD explicit SketchRule(const DrawSketch& a) : SketchRule(a.sketch, a.scale, *a.scalars) {}
  COMERA_HD SketchRule(const Sketch& sketch, double scale, const StepScalars& scalars)
      : sketch_(sketch),
        key_(step_key(scalars.seed, scalars.step / static_cast<std::uint64_t>(sketch.refresh))),
        round_keys_(words(0, 0, permutation)) {
    const auto rank = static_cast<double>(sketch_.rank);
    switch (sketch_.kind) {
      case SketchKind::normal: unit_ = static_cast<float>(scale / sqrt(8 * rank)); break;
      case SketchKind::sparse: unit_ = static_cast<float>(scale * 2 / sqrt(rank)); break;
      case SketchKind::orthonormal: unit_ = static_cast<float>(scale * sqrt(2 / rank)); break;
      case SketchKind::count: unit_ = static_cast<float>(scale); break;
    }
    while ((std::int64_t{1} << 2 * half_bits_) < sketch_.inputs) ++half_bits_;
  }

  // Count: the shift of a block of rows, and the column of a row's entry, which is sign(row).
  COMERA_HD std::int64_t shift(std::int64_t block) const {
    const std::uint64_t word = words(block, 0, permutation).word[1];
    return static_cast<std::int64_t>(word * static_cast<std::uint64_t>(sketch_.rank) >> 32);
  }
  COMERA_HD std::int64_t column(std::int64_t row) const { return (row + shift(row / sketch_.rank)) % sketch_.rank; }

  // Without the cosines of an orthonormal P: the entries of columns 4 block .. 4 block + 3.
  COMERA_HD void four(std::int64_t row, std::int64_t block, float* to) const {
    if (sketch_.kind == SketchKind::count) {
      const std::int64_t place = column(row) - 4 * block;
      for (int i = 0; i < 4; ++i) to[i] = i == place ? sign(row) : 0;
      return;
    }
    const PhiloxBlock random = words(row, block, entries);
    for (int i = 0; i < 4; ++i) {
      const std::uint32_t word = random.word[i];
      const int sparse = (word & 3u) != 0 ? 0 : (word & 4u) != 0 ? 1 : -1;
      to[i] = static_cast<float>(sketch_.kind == SketchKind::normal ? bits_set(word) - 16 : sparse) * unit_;
    }
  }

  // Orthonormal: the column of C that a column of P is. A Feistel network permutes 4^half_bits_ numbers; it is applied
  // until the result is below n, which permutes 0 .. n - 1.
  COMERA_HD std::uint32_t frequency(std::int64_t column) const {
    const std::uint32_t mask = (1u << half_bits_) - 1;
    auto x = static_cast<std::uint32_t>(column);
    do {
      std::uint32_t left = x >> half_bits_, right = x & mask;
      for (std::uint32_t round = 0; round < 8; ++round) {
        const std::uint64_t mixed = mix64((std::uint64_t{right} << 32 | round) ^ round_keys_.word[round % 4]);
        const std::uint32_t turned = left ^ (static_cast<std::uint32_t>(mixed >> 32) & mask);
        left = right, right = turned;
      }
      x = left << half_bits_ | right;
    } while (x >= static_cast<std::uint64_t>(sketch_.inputs));
    return x;
  }
  COMERA_HD float sign(std::int64_t row) const { return (words(row, 0, signs).word[0] & 1u) != 0 ? unit_ : -unit_; }
  // An entry of a column with that frequency in a row with that sign.
  COMERA_HD float entry(std::int64_t row, std::uint32_t frequency, float sign) const {
    // cos(pi (2 row + 1) frequency / (2 n)), with the angle reduced in integers.
    if (frequency == 0) return sign * 0.70710678f;
    const auto n = static_cast<std::uint64_t>(sketch_.inputs);
    const std::uint64_t angle = (2 * static_cast<std::uint64_t>(row) + 1) * frequency % (4 * n), quarter = angle / n,
                        within = angle % n, from_even = quarter % 2 == 0 ? within : n - within;
    const float cosine = cosine_of_quarter(static_cast<float>(from_even) / static_cast<float>(n));
    return (quarter == 1 || quarter == 2 ? -sign : sign) * cosine;
  }

 private:
  enum Use : std::uint32_t { entries, signs, permutation };
  COMERA_HD PhiloxBlock words(std::int64_t row, std::int64_t block, Use use) const {
    return philox4x32_10(
        {{sketch_.site, static_cast<std::uint32_t>(row), static_cast<std::uint32_t>(block), std::uint32_t{use}}}, key_);
  }

  Sketch sketch_;
  PhiloxKey key_;
  PhiloxBlock round_keys_;
  int half_bits_ = 1;
  float unit_ = 0;
};

}  // namespace comera::kernels
