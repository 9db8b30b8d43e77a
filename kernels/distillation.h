// Losses against a teacher: distances between vectors (hidden states, sentence embeddings), and the divergence of two
// softmaxes.
//
// Divergence (Hinton, Vinyals and Dean 2015, arXiv 1503.02531, section 2): with p = softmax(z / t) and
// q = softmax(teacher / t), the loss of a row is t^2 sum q log(q / p), and its gradient is t (p - q).
#pragma once

#include "kernels/types.h"

namespace comera::kernels {

constexpr double shortest_vector = 1e-12;  // lower limit for the length of a vector in a cosine

// Vector k of B*T belongs to sequence k / T and counts if k % T < lengths[k / T]. The loss is the mean over the counted
// vectors of a sequence, summed over sequences:
//   *loss += weight * *scale * sum_b mean_t d(x, target), d = |x - target|^2 / N or 1 - cos(x, target).
struct VectorDistance {
  Distance distance = Distance::squared;
  std::int64_t sequences = 0, length = 0, columns = 0;  // B, T, N
  const std::int32_t* lengths = nullptr;                // [B]; null: every vector counts
  const void* x = nullptr;                              // [B*T, N]
  const void* target = nullptr;                         // [B*T, N]
  double weight = 1;
  const double* scale = nullptr;
  void* distances = nullptr;  // [B*T], written: d of each counted vector, 0 for the others
  void* loss = nullptr;       // [1]; complex<double> in c128 calls, double in all others
};
// dx is overwritten or accumulated. The gradient of vectors that do not count is zero.
struct VectorDistanceBackward {
  Distance distance = Distance::squared;
  std::int64_t sequences = 0, length = 0, columns = 0;
  const std::int32_t* lengths = nullptr;
  const void* x = nullptr;
  const void* target = nullptr;
  double weight = 1;
  const double* scale = nullptr;
  void* dx = nullptr;
  bool accumulate = false;
};

// Numbers stored per row: maximum and sum of the student, maximum and sum of the teacher, sum of differences.
constexpr std::int64_t divergence_state = 5;

// Folds the logits of a chunk of classes into the states of the rows. `start` resets the states.
struct DivergenceChunk {
  std::int64_t rows = 0, columns = 0;
  bool start = false;
  double temperature = 1;
  const void* logits = nullptr;  // [rows, columns]
  std::int64_t ld = 0;
  const void* teacher = nullptr;  // [rows, columns]
  std::int64_t ld_teacher = 0;
  void* state = nullptr;  // [rows, divergence_state]
};
// *loss += weight * *scale * sum of the losses of the counted rows: all rows, or those with targets >= 0.
struct DivergenceLoss {
  std::int64_t rows = 0;
  double temperature = 1;
  const std::int32_t* targets = nullptr;  // [rows], optional
  const void* state = nullptr;
  double weight = 1;
  const double* scale = nullptr;
  void* loss = nullptr;
};
// Gradient with respect to the student's logits of a chunk; 0 for rows that do not count.
struct DivergenceBackward {
  std::int64_t rows = 0, columns = 0;
  double temperature = 1;
  const std::int32_t* targets = nullptr;
  const void* logits = nullptr;
  std::int64_t ld = 0;
  const void* teacher = nullptr;
  std::int64_t ld_teacher = 0;
  const void* state = nullptr;
  double weight = 1;
  const double* scale = nullptr;
  void* d_logits = nullptr;  // [rows, columns], contiguous
};

constexpr double flops(const VectorDistance& a) { return 6.0 * a.sequences * a.length * a.columns; }
constexpr double flops(const VectorDistanceBackward& a) { return 8.0 * a.sequences * a.length * a.columns; }
constexpr double flops(const DivergenceChunk& a) { return 12.0 * a.rows * a.columns; }
constexpr double flops(const DivergenceLoss& a) { return 8.0 * a.rows; }
constexpr double flops(const DivergenceBackward& a) { return 10.0 * a.rows * a.columns; }

}  // namespace comera::kernels
