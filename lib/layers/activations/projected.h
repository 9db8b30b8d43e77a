// Keeps random projections of the inputs of linear layers (CompAct): the weight gradient is computed from x P, the
// gradient of x and of the bias stays exact.
//
// Dense weights get their gradient in the subspace of P, where the optimiser works too
// (lib/layers/training/subspace.h). Chains need the gradient of their wide left factor, so there x^T G is estimated by
// P (P^T x^T G), without bias, and P is drawn again in every step: no state lives in its subspace. Cores of the input
// side and rank diagonals up to the middle bond have estimated gradients, those of the output side exact ones.
//
// Inputs that another layer keeps in full stay exact.
#pragma once

#include <memory>

#include "kernels/sketch.h"
#include "lib/layers/training/saved.h"

namespace comera::layers {

struct ProjectedSettings {
  kernels::SketchKind kind = kernels::SketchKind::count;
  double ratio = 0.25;        // r / n, if `rank` is 0
  std::int64_t rank = 0;      // r
  std::int64_t refresh = 50;  // steps between projections of a dense weight, T
  double scale = 0.25;        // of the updates, alpha
  double beside = 0.5;        // the same of the attention's output layer, whose gradient is exact, relative to `scale`
  bool shared = false;        // one projection for all layers of equal size: those that read the same x keep it once
};

std::unique_ptr<Keeper> make_projected_keeper(const ProjectedSettings& settings, const std::string& rule = "compact");

}  // namespace comera::layers
