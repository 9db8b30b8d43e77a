// One block of device memory for everything that an engine needs. A single allocation makes the driver's count equal to
// the plan.
#pragma once

#include <cstddef>

#include "lib/plan/slab.h"
#include "lib/plan/walk.h"

namespace comera::engine {

class DeviceBlock {
 public:
  struct Layout {
    std::size_t weights = 0;  // with the optimiser's moments
    std::size_t state = 0;    // the scalars of a step
    std::size_t inputs = 0;   // staged batches
    std::size_t step = 0;     // tensors of a step

    std::size_t bytes() const {
      return plan::aligned(weights) + plan::aligned(state) + plan::aligned(inputs) + plan::aligned(step);
    }
  };

  // Releases the current block and its contents first. Throws RunError if there is not enough memory.
  void take(const kernels::Backend& backend, const Layout& layout) {
    arena_ = plan::Arena();
    layout_ = {};
    arena_ = plan::Arena(backend, layout.bytes(), "a step with its weights");
    layout_ = layout;
  }
  bool holds(const Layout& wanted) const {
    return arena_.data() && wanted.weights == layout_.weights && wanted.state <= layout_.state &&
           wanted.inputs <= layout_.inputs && wanted.step <= layout_.step;
  }

  std::byte* weights() const { return static_cast<std::byte*>(arena_.data()); }
  std::byte* state() const { return weights() + plan::aligned(layout_.weights); }
  std::byte* inputs() const { return state() + plan::aligned(layout_.state); }
  std::byte* step() const { return inputs() + plan::aligned(layout_.inputs); }

 private:
  Layout layout_;
  plan::Arena arena_;
};

}  // namespace comera::engine
