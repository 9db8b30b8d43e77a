// The update of APOLLO-Mini (Zhu et al. 2025, arXiv 2412.05270): the direction of the gradient, scaled so that its size
// is that of Adam's step. With R = P^T G for a random P of rank 1, and N Adam's direction on R,
//   u = strength |N| / |R| G, shortened to |u| <= growth |u of the step before|, W -= lr u,
// with strength sqrt(128) and growth 1.01.
#pragma once

#include <cmath>

#include "kernels/sketch.h"
#include "kernels/step_scalars.h"

namespace comera::kernels {

// The product of a gradient G [rows, columns] with a normal P of rank 1 on its smaller side (kernels/sketch.h, drawn
// inside): result = P^T G [columns] if rows <= columns, else G P [rows]. All of the parameters' type.
struct ApolloProject {
  std::int64_t rows = 0, columns = 0;
  std::int64_t refresh = 1;
  std::uint32_t site = 0;
  const StepScalars* scalars = nullptr;
  const void* gradient = nullptr;
  void* result = nullptr;

  COMERA_HD bool projects_rows() const { return rows <= columns; }
  COMERA_HD std::int64_t size() const { return projects_rows() ? columns : rows; }
};

COMERA_HD inline SketchRule rule_of(const ApolloProject& a) {
  DrawSketch draw;
  draw.sketch.inputs = a.projects_rows() ? a.rows : a.columns, draw.sketch.rank = 1;
  draw.sketch.refresh = a.refresh, draw.sketch.site = a.site;
  draw.scalars = a.scalars;
  return SketchRule(draw);
}
COMERA_HD inline float entry_of(const SketchRule& rule, std::int64_t row) {
  float four[4];
  rule.four(row, 0, four);
  return four[0];
}

// *factor = -lr |u| / |G|, the factor of the gradient as it is in memory; *last = |u|. Sums of squares are those of
// tensors before StepScalars::gradient_scale. If scalars->finite is 0, the factor is 0 and `last` stays.
struct ApolloFactor {
  double strength = 11.313708498984761, growth = 1.01;
  const double* gradient = nullptr;   // |G|^2
  const double* projected = nullptr;  // |R|^2
  const double* direction = nullptr;  // |N|^2
  double* last = nullptr;             // 0: there was no step
  double* factor = nullptr;
  const AdamwScalars* group = nullptr;  // learning_rate
  const StepScalars* scalars = nullptr;
};

// y += *factor x, both of the parameters' type.
struct AddByFactor {
  std::int64_t count = 0;
  const double* factor = nullptr;
  const void* x = nullptr;
  void* y = nullptr;
};

COMERA_HD inline void write_factor(const ApolloFactor& a) {
  *a.factor = 0;
  if (a.scalars->finite == 0) return;
  const double clip = a.scalars->gradient_scale, norm = clip * sqrt(*a.gradient),
               scale = a.strength * sqrt(*a.direction) / (clip * sqrt(*a.projected) + 1e-8);
  const double wanted = scale * norm, most = a.growth * *a.last;
  const double size = *a.last > 0 && wanted > most ? most : wanted;
  if (norm > 0) *a.factor = -a.group->learning_rate * size / norm * clip;
  *a.last = size;
}

constexpr double flops(const ApolloProject& a) { return 2.0 * a.rows * a.columns; }
constexpr double flops(const ApolloFactor&) { return 0; }
constexpr double flops(const AddByFactor& a) { return 2.0 * a.count; }

}  // namespace comera::kernels
