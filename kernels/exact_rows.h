// Rows of a compressed table that stand beside its chain as they are: a look-up in the chain is overwritten where its
// id is one of theirs.
#pragma once

#include "kernels/types.h"

namespace comera::kernels {

// Finds the exact row of a token among the E rows by bisection, so that no map of the whole vocabulary is kept.
struct ExactIds {
  std::int64_t tokens = 0;                // K
  const std::int32_t* id = nullptr;       // [K]
  std::int64_t rows = 0, columns = 0;     // E, N
  const std::int32_t* row_ids = nullptr;  // [E], rising
};

// y[k] = rows[e] where id[k] = row_ids[e]; the other rows of y stay as they are.
struct ExactRowsForward {
  ExactIds ids;
  const void* rows = nullptr;  // [E, N]
  void* y = nullptr;           // [K, N]
};
// d_rows[e] += dy of its tokens, in the order of position; d_chain[k] = dy[k], and 0 for those tokens.
struct ExactRowsBackward {
  ExactIds ids;
  const void* dy = nullptr;  // [K, N]
  void* d_rows = nullptr;    // [E, N]
  void* d_chain = nullptr;   // [K, N]
};

constexpr double flops(const ExactRowsForward&) { return 0; }
constexpr double flops(const ExactRowsBackward& a) { return static_cast<double>(a.ids.tokens) * a.ids.columns; }

}  // namespace comera::kernels
