// Gradients of dense weights in a random subspace (CompAct: arXiv 2410.15352, algorithms 1 to 3): with P [n, r] of
// kernels/sketch.h, z = x P is kept in place of x, z^T dY [r, N] is the gradient, and W += alpha P u [r, N] the update.
#pragma once

#include "kernels/sketch.h"
#include "lib/layers/training/parameter.h"
#include "lib/plan/walk.h"

namespace comera::layers {

using plan::Walk;

struct Subspace {
  kernels::Sketch sketch;
  double scale = 1;  // alpha, of the updates
};

// The site of the sketches of a layer or weight of that name.
std::uint32_t site_of(const std::string& name);

// Returns x P, [K, r], for x with n columns. The key of P is that of `scalars`, in device memory.
Tensor project(Walk& walk, const Tensor& x, const kernels::Sketch& sketch, const kernels::StepScalars* scalars);
// result [n, N] += scale * P t for t [r, N], both of the parameters' type.
void lift(Walk& walk, const Subspace& subspace, const kernels::StepScalars* scalars, const Tensor& t,
          const Tensor& result);

}  // namespace comera::layers
