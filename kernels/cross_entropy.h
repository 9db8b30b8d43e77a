// Cross-entropy, computed in chunks of classes so that the logits of a large vocabulary are never all in memory.
// loss = sum over rows with target >= 0 of (log sum exp(logits) - logits[target]) * loss_scale.
#pragma once

#include "kernels/types.h"

namespace comera::kernels {

// Folds the logits of classes [first, first + columns) into four results per row: the running maximum, the sum of
// exp(logit - maximum), the target logit and the best class (arg max; ties go to the lowest index). `start` resets
// them. target_logit is written by the chunk that contains the target. The other three are also written for rows that
// are not counted.
struct CrossEntropyChunk {
  std::int64_t rows = 0, columns = 0, first = 0;
  bool start = false;
  const void* logits = nullptr;  // [rows, columns]
  std::int64_t ld = 0;
  const std::int32_t* targets = nullptr;  // [rows], -1: not counted
  void* maximum = nullptr;                // [rows]
  void* sum = nullptr;                    // [rows]
  void* target_logit = nullptr;           // [rows]
  std::int32_t* best = nullptr;           // [rows]
};
// *loss += sum of the rows' losses * loss_scale; *correct += number of rows whose best class is the target. Both are
// summed in double, in row order.
struct CrossEntropyLoss {
  std::int64_t rows = 0;
  const std::int32_t* targets = nullptr;
  const void* maximum = nullptr;
  const void* sum = nullptr;
  const void* target_logit = nullptr;
  const std::int32_t* best = nullptr;
  const double* loss_scale = nullptr;
  void* loss = nullptr;       // [1]; complex<double> in c128 calls (complex step), double in all others
  double* correct = nullptr;  // optional
};
// Replaces the logits of a chunk by their gradients: (exp(logit - maximum) / sum - [class is target]) * loss_scale, or
// 0 for rows that are not counted.
struct CrossEntropyBackward {
  std::int64_t rows = 0, columns = 0, first = 0;
  void* logits = nullptr;
  std::int64_t ld = 0;
  const std::int32_t* targets = nullptr;
  const void* maximum = nullptr;
  const void* sum = nullptr;
  const double* loss_scale = nullptr;
};

constexpr double flops(const CrossEntropyChunk& a) { return 4.0 * a.rows * a.columns; }
constexpr double flops(const CrossEntropyLoss& a) { return 4.0 * a.rows; }
constexpr double flops(const CrossEntropyBackward& a) { return 4.0 * a.rows * a.columns; }

}  // namespace comera::kernels
