// One block of a device's memory for everything of an engine: a single allocation, which the driver accounts for as
// planned.
#pragma once

#include <cstddef>

#include "lib/plan/slab.h"
#include "lib/plan/walk.h"

namespace comera::train {

class DeviceBlock {
 public:
  struct Layout {
    std::size_t weights = 0;  // with the optimiser's moments
    std::size_t state = 0;    // the scalars of a step
    std::size_t inputs = 0;   // batches on their way in
    std::size_t step = 0;     // what a step makes

    std::size_t bytes() const {
      return plan::aligned(weights) + plan::aligned(state) + plan::aligned(inputs) + plan::aligned(step);
    }
  };

  // The block that is there goes first, with what it holds. RunError when there is not enough memory.
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

}  // namespace comera::train
