// APOLLO-Mini. Its low-rank moments only measure the size of a step; the step itself is along the whole gradient.
#include "kernels/apollo.h"

#include "kernels/elementwise.h"
#include "kernels/optimizer.h"
#include "lib/layers/training/subspace.h"
#include "lib/train/updates/decay.h"

namespace comera::train {
namespace {

using engine::ParameterState;
using layers::StepState;
using layers::Walk;
using plan::Tensor;

constexpr std::int64_t refresh = 200;  // steps between projections (the paper's T)

// The larger of a weight's sizes: the smaller one is projected.
std::int64_t projected_size(const Parameter& weight) { return std::max(weight.shape[0], weight.shape[1]); }

class ApolloMini final : public Method {
 public:
  explicit ApolloMini(std::int64_t least_elements) : least_elements_(least_elements) {}
  bool takes(const Parameter& parameter, bool by_name) const override {
    return is_dense_linear(parameter, by_name) && parameter.shape.elements() >= least_elements_;
  }
  void check(const Parameter& weight) const override { require_whole_gradient(weight, "apollo-mini"); }

  std::vector<ParameterState> state() const override {
    const auto row = [](const Parameter& weight) { return Shape{projected_size(weight)}; };
    return {{"projected.moment1", row},
            {"projected.moment2", row},
            {"update_norm", [](const Parameter&) { return Shape{1}; }, DType::f64}};
  }

  void run(Walk& walk, StepState* state, std::span<const Target> targets, const States& states) override {
    decay_.run(walk, state, targets);
    for (const Target& t : targets) update(walk, state, t, states);
  }

 private:
  static void update(Walk& walk, StepState* state, const Target& t, const States& states) {
    const kernels::Backend& backend = walk.backend();
    const std::int64_t size = projected_size(*t.parameter);
    Tensor numbers = walk.make("sums of squares", {4}, DType::f64),
           direction = walk.make_statistic("direction", {size}), projected = project(walk, state, t);
    auto* const sums = static_cast<double*>(numbers.data);
    const auto square = [&](std::int64_t count, const void* data, int place) {
      const kernels::ConstTensor tensor{count, data};
      walk.run(backend.square_sum, {&tensor, 1, sums + place});
    };
    walk.run(backend.fill, {direction.data, direction.bytes()});
    const auto* scalars = reinterpret_cast<const UpdateScalars*>(state->update);
    const kernels::AdamwTensor low{size,
                                   direction.data,
                                   projected.data,
                                   states.of<void>(0, *t.parameter),
                                   states.of<void>(1, *t.parameter),
                                   &scalars->unit};
    walk.run(backend.adamw, {&low, 1, &state->scalars});
    square(t.count, t.gradient, 0), square(size, projected.data, 1), square(size, direction.data, 2);
    walk.run(backend.apollo_factor, {.gradient = sums,
                                     .projected = sums + 1,
                                     .direction = sums + 2,
                                     .last = states.of<double>(2, *t.parameter),
                                     .factor = sums + 3,
                                     .group = t.scalars,
                                     .scalars = &state->scalars});
    walk.run(backend.add_by_factor, {t.count, sums + 3, t.gradient, t.value});
    walk.drop(numbers);
    walk.drop(direction);
    walk.drop(projected);
  }

  static Tensor project(Walk& walk, StepState* state, const Target& t) {
    kernels::ApolloProject call{.rows = t.parameter->shape[0],
                                .columns = t.parameter->shape[1],
                                .refresh = refresh,
                                .site = layers::site_of(t.parameter->name),
                                .scalars = &state->scalars,
                                .gradient = t.gradient};
    const Tensor projected = walk.make_statistic("projected", {call.size()});
    call.result = projected.data;
    walk.run(walk.backend().apollo_project, call);
    return projected;
  }

  std::int64_t least_elements_;
  Decay decay_;
};

}  // namespace

std::unique_ptr<Method> make_apollo_mini(std::int64_t least_elements) {
  return std::make_unique<ApolloMini>(least_elements);
}

}  // namespace comera::train
