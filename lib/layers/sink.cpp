#include "lib/layers/sink.h"

#include "kernels/elementwise.h"
#include "lib/core/error.h"

namespace comera::layers {

AccumulateSink::AccumulateSink(Parameters& parameters, plan::Slab& step_gradients) : step_gradients_(step_gradients) {
  for (const Parameter& parameter : parameters.all()) {
    plan::Slab& slab = parameter.from_halves ? from_halves_ : step_gradients_;
    const int slot =
        slab.add("gradient." + parameter.name, plan::Kind::gradients, parameter.value.dtype, parameter.shape);
    gradients_.push_back({parameter.from_halves, slot, {}});
  }
}

void AccumulateSink::begin(Walk& walk) {
  const Tensor first = step_gradients_.items().empty() ? Tensor{} : step_gradients_[0];
  walk.run(walk.backend().fill, kernels::Fill{first.data, step_gradients_.bytes()});
  for (Gradient& gradient : gradients_)
    if (!gradient.from_halves) gradient.tensor = step_gradients_[gradient.slot];
}

Tensor AccumulateSink::open(Walk& walk, Parameter& parameter) {
  Gradient& gradient = gradients_[static_cast<std::size_t>(parameter.index)];
  if (!gradient.from_halves) return step_gradients_[gradient.slot];
  if (memory_.empty()) {
    memory_ = walk.make("gradients of cores", {static_cast<std::int64_t>(from_halves_.bytes())}, DType::u8,
                        plan::Kind::gradients);
    walk.run(walk.backend().fill, kernels::Fill{memory_.data, memory_.bytes()});
    from_halves_.bind(memory_.data);
  }
  return gradient.tensor = from_halves_[gradient.slot];
}

void AccumulateSink::close(Walk&, Parameter&, Tensor& gradient) { gradient = Tensor{}; }

void AccumulateSink::release(Walk& walk) {
  for (Gradient& gradient : gradients_)
    if (gradient.from_halves) gradient.tensor = Tensor{};
  if (!memory_.empty()) walk.drop(memory_);
}

}  // namespace comera::layers
