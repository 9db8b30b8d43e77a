// Weight decay apart from the update, for methods whose step is no AdamW step on the whole weight.
#pragma once

#include "kernels/optimizer.h"
#include "lib/train/updates/method.h"

namespace comera::train {

class Decay {
 public:
  void run(layers::Walk& walk, const layers::StepState* state, std::span<const Target> targets) {
    tensors_.clear();
    for (const Target& t : targets) tensors_.push_back({t.count, t.value, t.scalars});
    walk.run(walk.backend().decay, {tensors_.data(), static_cast<int>(tensors_.size()), &state->scalars});
  }

 private:
  std::vector<kernels::DecayTensor> tensors_;  // sized once
};

}  // namespace comera::train
