// Linear layer whose weight is a product of a left and a right factor, W = A B with A [M x R], B [R x N]. It serves TT
// layers (CoMERA, NeurIPS 2024, section 4.2: contraction path cut at the middle bond) and low-rank pairs.
//
// Layers that read the same x (q, k, v; gate, up) share one wide left factor: their A's are concatenated by columns, so
// x A is one product. Ranks are padded with zeros to a multiple of tt_rank_unit. Columns [offset_i, offset_i + padded
// rank_i) of the wide factor and of T1 belong to output i. A rank of 0 is allowed; the layer is then its bias.
#pragma once

#include "kernels/types.h"

namespace comera::kernels {

constexpr int max_outputs = 4;

struct TtOutput {
  std::int64_t out = 0;         // N_i
  std::int64_t rank = 0;        // padded
  std::int64_t offset = 0;      // first column in T1
  const void* right = nullptr;  // B_i [rank, N_i], contiguous
  const void* bias = nullptr;   // [N_i], optional
  void* y = nullptr;            // [K, N_i] with ldy (forward)
  void* pre = nullptr;          // forward: optional output; backward: optional input, recomputed from T1 if null
  std::int64_t ldy = 0;         // of y, pre and dy
  const void* dy = nullptr;     // backward [K, N_i]
  void* d_right = nullptr;      // backward, accumulated [rank, N_i]
  void* d_bias = nullptr;       // backward, accumulated [N_i], optional
};

// T1 = x A [K, width]; y_i = act(T1_i B_i + b_i).
struct TtLinearForward {
  std::int64_t tokens = 0, in = 0, width = 0;  // K, M, sum of padded ranks
  const void* x = nullptr;
  std::int64_t ldx = 0;
  const void* left = nullptr;  // wide A [M, width], contiguous
  Activation activation = Activation::none;
  void* t1 = nullptr;        // [K, width], contiguous; always written
  bool t1_is_given = false;  // true: skip x A and recompute y from a kept T1; x and left are not read
  int outputs = 0;
  TtOutput output[max_outputs];
  Path path = Path::automatic;
};

// With d_pre = dy_i * act'(pre_i): U1_i = d_pre B_i^T, d_B_i += T1_i^T d_pre, d_bias_i += column sums of d_pre; dx = or
// += U1 A^T. If x is given, d_A += x^T U1. Otherwise the caller computes d_A as a Product with U1.
struct TtLinearBackward {
  std::int64_t tokens = 0, in = 0, width = 0;
  const void* x = nullptr;  // [K, M] with ldx, optional
  std::int64_t ldx = 0;
  void* d_left = nullptr;      // [M, width], accumulated; used if x is given
  const void* t1 = nullptr;    // [K, width]
  const void* left = nullptr;  // [M, width]
  Activation activation = Activation::none;
  void* u1 = nullptr;  // [K, width], written
  void* dx = nullptr;  // [K, M], optional; may be x itself if ldx = lddx and nothing is accumulated
  std::int64_t lddx = 0;
  bool accumulate_dx = false;
  int outputs = 0;
  TtOutput output[max_outputs];
  Path path = Path::automatic;
};

constexpr double right_columns(const TtOutput* output, int outputs) {
  double sum = 0;
  for (int i = 0; i < outputs; ++i) sum += static_cast<double>(output[i].rank) * output[i].out;
  return sum;
}
constexpr double flops(const TtLinearForward& a) {
  return 2.0 * a.tokens *
         ((a.t1_is_given ? 0.0 : static_cast<double>(a.in) * a.width) + right_columns(a.output, a.outputs));
}
constexpr double flops(const TtLinearBackward& a) {
  const bool recompute = a.activation != Activation::none && a.outputs > 0 && a.output[0].pre == nullptr;
  const double left = static_cast<double>(a.in) * a.width;
  return 2.0 * a.tokens *
         ((recompute ? 3 : 2) * right_columns(a.output, a.outputs) + (a.dx ? left : 0.0) + (a.x ? left : 0.0));
}

}  // namespace comera::kernels
