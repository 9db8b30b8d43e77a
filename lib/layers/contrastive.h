// The loss of pairs of texts whose vectors shall be near, with the other pairs of the batch as negatives.
#pragma once

#include "lib/data/batch.h"
#include "lib/layers/loss.h"

namespace comera::layers {

// For n pairs of unit vectors u_i, v_i: the cross-entropy of softmax_j(s u_i . v_j) against j = i, summed over i, times
// the step's loss scale; s is 20 (Henderson et al. 2017, arXiv 1705.00652, section 4, with cosines). The partners are
// the batch's "partners".
class Contrastive {
 public:
  static constexpr double scale = 20;

  void declare(const data::Batch& batch, plan::Inputs& inputs) { inputs.add(batch["partners"], partners_); }
  // vectors [2 n, N]: all u, then all v. Adds to the step's loss and to its number of correct predictions: pairs with
  // the largest cosine at j = i.
  void forward(Pass& pass, StepState& state, const Tensor& vectors);
  // Overwrites d_vectors. Called once after each training forward, with its vectors.
  void backward(Pass& pass, const Tensor& vectors, const Tensor& d_vectors);

 private:
  CrossEntropy loss_;
  Tensor partners_;         // input
  Tensor scaled_, logits_;  // s u; s u v^T
};

}  // namespace comera::layers
