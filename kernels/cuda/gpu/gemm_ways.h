// Caches the library's choice of algorithm. The choice depends only on the GemmKey.
#pragma once

#include <compare>
#include <map>
#include <mutex>
#include <optional>

#include "kernels/cuda/common/gemm.h"

namespace comera::kernels::cuda {

// The largest power of two up to 256 that divides the address, in bytes.
inline std::uint32_t alignment_of(const void* data) {
  const auto address = reinterpret_cast<std::uintptr_t>(data) | 256u;
  return static_cast<std::uint32_t>(address & (~address + 1));
}

// All inputs of the library's choice. `accumulate` does not influence it.
struct GemmKey {
  GemmKey(const Gemm& g, bool tf32)
      : m(g.m),
        n(g.n),
        k(g.k),
        lda(g.lda),
        ldb(g.ldb),
        ldc(g.ldc),
        batch(g.batch),
        stride_a(g.stride_a),
        stride_b(g.stride_b),
        stride_c(g.stride_c),
        alignment_a(alignment_of(g.a)),
        alignment_b(alignment_of(g.b)),
        alignment_c(alignment_of(g.c)),
        in(g.in),
        out(g.out),
        transpose_a(g.transpose_a),
        transpose_b(g.transpose_b),
        tf32(tf32 && g.in == DType::f32),
        eight_bits(g.eight_bits()),
        a_is_e5m2(g.a_is_e5m2) {}
  std::strong_ordering operator<=>(const GemmKey&) const = default;

  std::int64_t m, n, k, lda, ldb, ldc, batch, stride_a, stride_b, stride_c;
  std::uint32_t alignment_a, alignment_b, alignment_c;
  DType in, out;
  bool transpose_a, transpose_b, tf32, eight_bits, a_is_e5m2;
};

template <class Way>
class GemmWays {
 public:
  // search() returns a choice, or nullopt if it failed; a failure is not cached.
  template <class Search>
  std::optional<Way> find(const GemmKey& key, const Search& search) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto kept = ways_.find(key);
    if (kept != ways_.end()) return kept->second;
    const std::optional<Way> found = search();
    if (found) ways_.emplace(key, *found);
    return found;
  }

 private:
  std::mutex mutex_;
  std::map<GemmKey, Way> ways_;
};

}  // namespace comera::kernels::cuda
