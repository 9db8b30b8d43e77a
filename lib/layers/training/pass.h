// One forward and backward over one micro-batch: the arguments common to all layers.
#pragma once

#include "lib/layers/training/saved.h"

namespace comera::layers {

struct Pass {
  Walk& walk;
  SavePolicy policy;
  std::int64_t sequences = 0, length = 0;         // B, T
  const kernels::StepScalars* scalars = nullptr;  // in device memory
  const std::int64_t* samples = nullptr;          // [B], in device memory
  const Distillation* distillation = nullptr;     // settings of the model

  std::int64_t tokens() const { return sequences * length; }
  const kernels::Backend& backend() const { return walk.backend(); }
  // Dropout of rows of [B * tokens_per_sample, N]; none in evaluation.
  kernels::Dropout dropout(double probability, std::uint32_t site, std::int64_t tokens_per_sample) const {
    if (!policy.training() || probability <= 0) return {};
    return {probability, site, scalars, samples, tokens_per_sample};
  }
  kernels::Dropout dropout(double probability, std::uint32_t site) const { return dropout(probability, site, length); }
};

}  // namespace comera::layers
