// Logistic loss of one logit per row: log(1 + exp(z)) - t z for a target t of 0 or 1.
#pragma once

#include "kernels/types.h"

namespace comera::kernels {

// *loss += sum of the rows' losses * loss_scale; *correct += number of rows with (z > 0) == (t == 1). Both are summed
// in double. Rows with targets below 0 are not counted.
struct LogisticLoss {
  std::int64_t rows = 0;
  const void* logits = nullptr;           // [rows]
  const std::int32_t* targets = nullptr;  // [rows]: 0 or 1, -1: not counted
  const double* loss_scale = nullptr;
  void* loss = nullptr;       // [1]; complex<double> in c128 calls, double in all others
  double* correct = nullptr;  // optional
};
// d_logits = (1 / (1 + exp(-z)) - t) * loss_scale, or 0 for rows that are not counted. d_logits may be logits.
struct LogisticBackward {
  std::int64_t rows = 0;
  const void* logits = nullptr;
  const std::int32_t* targets = nullptr;
  const double* loss_scale = nullptr;
  void* d_logits = nullptr;
};

constexpr double flops(const LogisticLoss& a) { return 6.0 * static_cast<double>(a.rows); }
constexpr double flops(const LogisticBackward& a) { return 6.0 * static_cast<double>(a.rows); }

}  // namespace comera::kernels
