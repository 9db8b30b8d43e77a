// Scaled dot-product attention, with dropout, key ranges and grouped query heads.
//
// The Tq x Tk matrix of probabilities is not stored for the backward. The forward stores one log-sum-exp per row, and
// the backward recomputes the probabilities from it (Dao et al. 2022, arXiv 2205.14135).
//
// Each query row attends to the keys [key_begin, key_end) of its own sequence. This covers padding, causal masks,
// packed documents and a KV cache. A row with an empty range has zeros as output and contributes no gradient. Hq is a
// multiple of Hkv: query head h reads key head h / (Hq / Hkv).
//
// Scores may have a bias by head and distance: relative positions, whose distances share a few rows of a table (Raffel
// et al. 2020, arXiv 1910.10683, section 2.1): score(h, i, j) = scale q_i k_j + bias[bias_row[j - i + Tq - 1], h].
#pragma once

#include "kernels/group_codes.h"

namespace comera::kernels {

struct AttentionShape {
  std::int64_t batch = 0, queries = 0, keys = 0;         // B, Tq, Tk
  std::int64_t heads = 0, key_heads = 0, head_size = 0;  // Hq, Hkv, D
  double scale = 1;                                      // of the scores, usually 1 / sqrt(D)
  const std::int32_t* key_begin = nullptr;               // [B, Tq], optional: 0
  const std::int32_t* key_end = nullptr;                 // [B, Tq], optional: Tk
  const void* bias = nullptr;                            // [bias_rows, Hq], a parameter
  const std::int32_t* bias_row = nullptr;                // [Tq + Tk - 1]
  std::int64_t bias_rows = 0;                            // 0: no bias

  constexpr std::int64_t distances() const { return queries + keys - 1; }
  constexpr bool biased() const { return bias_rows > 0; }
};

// Row t of sequence b of q starts at q + (b * Tq + t) * ldq, and head h starts at + h * D. The same holds for k and v
// (Tk rows, Hkv heads) and for out (Tq rows, Hq heads). Dropout applies to the probabilities, with token = query and
// feature = head * 2^20 + key.
struct AttentionForward {
  AttentionShape shape;
  const void* q = nullptr;
  std::int64_t ldq = 0;
  const void* k = nullptr;
  std::int64_t ldk = 0;
  const void* v = nullptr;
  std::int64_t ldv = 0;
  Dropout dropout;
  void* out = nullptr;  // optional: without it only lse is computed
  std::int64_t ld_out = 0;
  // [B, Hq, Tq], optional: log of the sum of exponentials of the scaled scores. Unspecified for an empty range.
  void* lse = nullptr;
};

struct AttentionBackward {
  AttentionShape shape;
  const void* q = nullptr;
  std::int64_t ldq = 0;
  const void* k = nullptr;
  std::int64_t ldk = 0;
  const void* v = nullptr;
  std::int64_t ldv = 0;
  Dropout dropout;
  const void* out = nullptr;
  std::int64_t ld_out = 0;
  // Of these q and k. Null: it is computed again. That of others, rounded copies for example, makes probabilities that
  // do not add up to 1.
  const void* lse = nullptr;
  const void* d_out = nullptr;  // with ld_out
  void* dq = nullptr;           // with ldq, ldk, ldv; overwritten
  void* dk = nullptr;
  void* dv = nullptr;
  void* d_bias = nullptr;  // [bias_rows, Hq], optional; accumulated
};

// The backward with q, k, v and out in codes: those of a head are restored while its gradient is computed. The same
// bytes as those of GroupRestores and an AttentionBackward.
struct CodedAttentionBackward {
  // Rows of the codes are tokens; the first head starts at column `first`.
  struct Columns {
    CodedRows rows;
    std::int64_t first = 0;
  };
  AttentionBackward attention;  // q, k, v and out are not read; ldq, ldk and ldv are those of dq, dk and dv
  Columns q, k, v, out;
};

constexpr std::int64_t coded_tokens = 128, coded_head = 128;  // the largest ones

// False: Status::unsupported_shape. Larger heads or longer sequences need the numbers in memory.
constexpr bool fits(const CodedAttentionBackward& a) {
  const AttentionShape& s = a.attention.shape;
  const auto even = [&](const CodedAttentionBackward::Columns& x) {
    return x.rows.shape.bits != 4 || (s.head_size % 2 == 0 && x.first % 2 == 0);
  };
  return s.queries <= coded_tokens && s.keys <= coded_tokens && s.head_size <= coded_head && even(a.q) && even(a.k) &&
         even(a.v) && even(a.out);
}

constexpr double score_elements(const AttentionShape& s) {
  return 1.0 * s.batch * s.heads * s.queries * s.keys * s.head_size;
}
constexpr double flops(const AttentionForward& a) { return (a.out ? 4 : 2) * score_elements(a.shape); }
constexpr double flops(const AttentionBackward& a) { return 10 * score_elements(a.shape); }
constexpr double flops(const CodedAttentionBackward& a) { return flops(a.attention); }

}  // namespace comera::kernels
