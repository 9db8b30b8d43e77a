// Exact rows of a compressed table: rows that are stored as they are beside the chain. They overwrite the result of the
// look-up in the chain for their ids.
#pragma once

#include "kernels/types.h"

namespace comera::kernels {

// Exact rows are found by bisection among the E row ids, so no map over the whole vocabulary is stored.
struct ExactIds {
  std::int64_t tokens = 0;                // K
  const std::int32_t* id = nullptr;       // [K]
  std::int64_t rows = 0, columns = 0;     // E, N
  const std::int32_t* row_ids = nullptr;  // [E], strictly increasing
};

// y[k] = rows[e] where id[k] = row_ids[e]; all other rows of y are unchanged.
struct ExactRowsForward {
  ExactIds ids;
  const void* rows = nullptr;  // [E, N]
  void* y = nullptr;           // [K, N]
};
// d_rows[e] += dy of its tokens, in order of position. d_chain[k] = dy[k], or 0 if token k has an exact row.
struct ExactRowsBackward {
  ExactIds ids;
  const void* dy = nullptr;  // [K, N]
  void* d_rows = nullptr;    // [E, N]
  void* d_chain = nullptr;   // [K, N]
};

constexpr double flops(const ExactRowsForward&) { return 0; }
constexpr double flops(const ExactRowsBackward& a) { return static_cast<double>(a.ids.tokens) * a.ids.columns; }

}  // namespace comera::kernels
