// LOMO and AdaLomo: updates of the dense weights of blocks in the backward. Heads and tables are not among them: chunks
// of a pass and tied uses open their gradients several times.
#include "kernels/lomo.h"

#include "kernels/optimizer.h"
#include "lib/train/updates/method.h"

namespace comera::train {
namespace {

using engine::ParameterState;
using layers::StepState;
using layers::Walk;
using plan::Tensor;

bool is_block_weight(const Parameter& parameter, std::int64_t least_elements) {
  return is_dense_linear(parameter) && parameter.place != layers::Place::other &&
         parameter.shape.elements() >= least_elements;
}

kernels::LomoAdd addition(const Target& t, const double* factors) {
  return {.rows = t.parameter->shape[0],
          .columns = t.parameter->shape[1],
          .factors = factors,
          .gradient = t.gradient,
          .value = t.value};
}

class Lomo final : public Method {
 public:
  Lomo(double clip, std::int64_t least_elements) : clip_(clip), least_elements_(least_elements) {}
  bool takes(const Parameter& parameter, bool) const override { return is_block_weight(parameter, least_elements_); }
  void check(const Parameter& weight) const override { require_whole_gradient(weight, "lomo"); }
  bool at_once() const override { return true; }
  std::vector<ParameterState> state() const override { return {}; }

  void run(Walk& walk, StepState* state, std::span<const Target> targets, const States&) override {
    for (const Target& t : targets) {
      Tensor numbers = walk.make("sum and factors", {3}, DType::f64);
      auto* const square = static_cast<double*>(numbers.data);
      const kernels::ConstTensor gradient{t.count, t.gradient};
      walk.run(walk.backend().square_sum, {&gradient, 1, square});
      walk.run(walk.backend().lomo_factors, {.clip = clip_,
                                             .square = square,
                                             .loss = state->loss,
                                             .group = t.scalars,
                                             .applied = &state->applied_square_sum,
                                             .factors = square + 1});
      walk.run(walk.backend().lomo_add, addition(t, square + 1));
      walk.drop(numbers);
    }
  }

 private:
  double clip_;
  std::int64_t least_elements_;
};

class AdaLomo final : public Method {
 public:
  explicit AdaLomo(std::int64_t least_elements) : least_elements_(least_elements) {}
  bool takes(const Parameter& parameter, bool) const override { return is_block_weight(parameter, least_elements_); }
  void check(const Parameter& weight) const override { require_whole_gradient(weight, "adalomo"); }
  bool at_once() const override { return true; }

  std::vector<ParameterState> state() const override {
    const auto size = [](int side) { return [side](const Parameter& weight) { return Shape{weight.shape[side]}; }; };
    return {{"row", size(0), DType::f64}, {"column", size(1), DType::f64}};
  }

  void run(Walk& walk, StepState* state, std::span<const Target> targets, const States& states) override {
    for (const Target& t : targets)
      update(walk, state, t, states.of<double>(0, *t.parameter), states.of<double>(1, *t.parameter));
  }

 private:
  static void update(Walk& walk, StepState* state, const Target& t, double* row, double* column) {
    Tensor numbers = walk.make("factors", {2}, DType::f64);
    kernels::LomoAdd add = addition(t, static_cast<double*>(numbers.data));
    add.row = row, add.column = column;
    walk.run(walk.backend().adalomo_means, {.rows = add.rows,
                                            .columns = add.columns,
                                            .gradient = t.gradient,
                                            .loss = state->loss,
                                            .scalars = &state->scalars,
                                            .applied = &state->applied_square_sum,
                                            .row = row,
                                            .column = column});
    walk.run(walk.backend().adalomo_factors, {.rows = add.rows,
                                              .columns = add.columns,
                                              .row = row,
                                              .column = column,
                                              .gradient = t.gradient,
                                              .value = t.value,
                                              .loss = state->loss,
                                              .applied = &state->applied_square_sum,
                                              .group = t.scalars,
                                              .factors = static_cast<double*>(numbers.data)});
    walk.run(walk.backend().lomo_add, add);
    walk.drop(numbers);
  }

  std::int64_t least_elements_;
};

}  // namespace

std::unique_ptr<Method> make_lomo(double clip, std::int64_t least_elements) {
  return std::make_unique<Lomo>(clip, least_elements);
}
std::unique_ptr<Method> make_adalomo(std::int64_t least_elements) { return std::make_unique<AdaLomo>(least_elements); }

}  // namespace comera::train
