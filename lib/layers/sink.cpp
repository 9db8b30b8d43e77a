#include "lib/layers/sink.h"

#include "lib/core/error.h"

namespace comera::layers {

AccumulateSink::AccumulateSink(Parameters& parameters, plan::Slab& step_gradients) : step_gradients_(step_gradients) {
  for (Parameter& parameter : parameters.all()) {
    Gradient gradient{&parameter, -1, {}};
    if (!parameter.from_halves)
      gradient.slot = step_gradients.add("gradient." + parameter.name, plan::Kind::gradients, parameter.value.dtype, parameter.shape);
    gradients_.push_back(gradient);
  }
}

void AccumulateSink::begin(Walk& walk) {
  const Tensor first = step_gradients_.items().empty() ? Tensor{} : step_gradients_[0];
  walk.run(walk.backend().fill, kernels::Fill{first.data, step_gradients_.bytes()});
  for (Gradient& gradient : gradients_)
    if (gradient.slot >= 0) gradient.tensor = step_gradients_[gradient.slot];
}

AccumulateSink::Gradient& AccumulateSink::of(Parameter& parameter) { return gradients_[static_cast<std::size_t>(parameter.index)]; }

Tensor AccumulateSink::open(Walk& walk, Parameter& parameter) {
  Gradient& gradient = of(parameter);
  if (gradient.slot >= 0) return step_gradients_[gradient.slot];
  gradient.tensor = walk.make("gradient", parameter.shape, parameter.value.dtype, plan::Kind::gradients);
  walk.run(walk.backend().fill, kernels::Fill{gradient.tensor.data, gradient.tensor.bytes()});
  return gradient.tensor;
}

void AccumulateSink::close(Walk&, Parameter&, Tensor& gradient) { gradient = Tensor{}; }

void AccumulateSink::release(Walk& walk) {
  for (Gradient& gradient : gradients_)
    if (gradient.slot < 0 && !gradient.tensor.empty()) walk.drop(gradient.tensor);
}

}  // namespace comera::layers
