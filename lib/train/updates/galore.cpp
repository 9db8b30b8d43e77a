// GaLore: Adam in the subspace of the first singular vectors of a gradient. The vectors are kept, because they cannot
// be computed again from a later gradient. Moments are not changed when a new basis replaces the old one, as published.
#include "kernels/galore.h"

#include "kernels/adamw8.h"
#include "kernels/elementwise.h"
#include "kernels/linear.h"
#include "kernels/optimizer.h"
#include "lib/core/error.h"
#include "lib/layers/training/subspace.h"
#include "lib/train/updates/decay.h"

namespace comera::train {
namespace {

using engine::ParameterState;
using layers::StepState;
using layers::Walk;
using plan::Tensor;

// Sizes of a weight: the smaller side is projected; of equal sides it is that of the inputs.
struct Sides {
  bool projects_rows;
  std::int64_t small, large;

  explicit Sides(const Parameter& weight)
      : projects_rows(weight.shape[0] <= weight.shape[1]),
        small(std::min(weight.shape[0], weight.shape[1])),
        large(std::max(weight.shape[0], weight.shape[1])) {}
};

class Galore final : public Method {
 public:
  Galore(const GaloreSettings& settings, std::int64_t least_elements, bool in_8_bits)
      : settings_(settings), least_elements_(least_elements), in_8_bits_(in_8_bits) {}

  bool takes(const Parameter& parameter, bool by_name) const override {
    return is_dense_linear(parameter, by_name) && parameter.shape.elements() >= least_elements_ &&
           (by_name || parameter.place != layers::Place::other);
  }

  void check(const Parameter& weight) const override {
    require_whole_gradient(weight, in_8_bits_ ? "galore8bit" : "galore");
    const Sides sides(weight);
    if (settings_.rank > sides.small)
      fail_input("[train] --galore-rank {}: '{}' is {} x {}, so its gradient has at most {} singular vectors; use {}",
                 settings_.rank, weight.name, weight.shape[0], weight.shape[1], sides.small,
                 std::max<std::int64_t>(1, sides.small / 4));
  }

  std::vector<ParameterState> state() const override {
    const std::int64_t rank = settings_.rank;
    std::vector<ParameterState> states = {{"basis",
                                           [rank](const Parameter& weight) {
                                             return Shape{rank, Sides(weight).small};
                                           }},
                                          {"basis.epoch", [](const Parameter&) { return Shape{1}; }, DType::f64}};
    const auto projected = [rank](const Parameter& weight) { return projected_shape(weight, rank); };
    const auto codes = [rank](const Parameter& weight) { return Shape{projected_shape(weight, rank).elements()}; };
    const auto blocks = [rank](const Parameter& weight) {
      return Shape{kernels::adamw8_blocks(projected_shape(weight, rank).elements())};
    };
    if (!in_8_bits_) {
      states.push_back({"projected.moment1", projected});
      states.push_back({"projected.moment2", projected});
    } else {
      states.push_back({"projected.moment1.codes", codes, DType::u8});
      states.push_back({"projected.moment2.codes", codes, DType::u8});
      states.push_back({"projected.moment1.largest", blocks, DType::f32});
      states.push_back({"projected.moment2.largest", blocks, DType::f32});
    }
    return states;
  }

  void run(Walk& walk, StepState* state, std::span<const Target> targets, const States& states) override {
    decay_.run(walk, state, targets);
    for (const Target& t : targets) update(walk, state, t, states);
  }

 private:
  static Shape projected_shape(const Parameter& weight, std::int64_t rank) {
    const Sides sides(weight);
    return sides.projects_rows ? Shape{rank, sides.large} : Shape{sides.large, rank};
  }

  // With P^T [r, small]: R = P^T G and W += P D, or R = G P and W += D P^T, for Adam's step D on R.
  void update(Walk& walk, StepState* state, const Target& t, const States& states) const {
    const Parameter& weight = *t.parameter;
    const std::int64_t rows = weight.shape[0], columns = weight.shape[1], rank = settings_.rank;
    const Sides sides(weight);
    void* const basis = states.of<void>(0, weight);
    walk.run(walk.backend().galore_basis, {.rows = rows,
                                           .columns = columns,
                                           .rank = rank,
                                           .refresh = settings_.refresh,
                                           .site = layers::site_of(weight.name),
                                           .scalars = &state->scalars,
                                           .gradient = t.gradient,
                                           .basis = basis,
                                           .epoch = states.of<double>(1, weight)});
    const Shape shape = projected_shape(weight, rank);
    Tensor projected = walk.make_statistic("projected", shape), direction = walk.make_statistic("direction", shape);
    kernels::MatMul down, up;
    down.m = shape[0], down.n = shape[1], down.k = sides.small;
    up.m = rows, up.n = columns, up.k = rank, up.accumulate = true;
    if (sides.projects_rows) {
      down.a = basis, down.lda = sides.small, down.b = t.gradient, down.ldb = columns;
      up.a = basis, up.lda = sides.small, up.transpose_a = true, up.b = direction.data, up.ldb = columns;
    } else {
      down.a = t.gradient, down.lda = columns, down.b = basis, down.ldb = sides.small, down.transpose_b = true;
      up.a = direction.data, up.lda = rank, up.b = basis, up.ldb = sides.small;
    }
    down.c = projected.data, down.ldc = shape[1];
    up.c = t.value, up.ldc = columns;
    walk.run(walk.backend().parameter_product, {down});
    walk.run(walk.backend().fill, {direction.data, direction.bytes()});
    step(walk, state, weight, projected, direction, states);
    walk.run(walk.backend().parameter_product, {up});
    walk.drop(direction);
    walk.drop(projected);
  }

  void step(Walk& walk, StepState* state, const Parameter& weight, const Tensor& projected, const Tensor& direction,
            const States& states) const {
    const auto* scalars = &reinterpret_cast<const UpdateScalars*>(state->update)->galore;
    const std::int64_t count = projected.elements();
    if (!in_8_bits_) {
      const kernels::AdamwTensor tensor{
          count, direction.data, projected.data, states.of<void>(2, weight), states.of<void>(3, weight), scalars};
      return walk.run(walk.backend().adamw, {&tensor, 1, &state->scalars});
    }
    const kernels::Adamw8Tensor tensor{.count = count,
                                       .value = direction.data,
                                       .gradient = projected.data,
                                       .codes1 = states.of<std::uint8_t>(2, weight),
                                       .codes2 = states.of<std::uint8_t>(3, weight),
                                       .largest1 = states.of<float>(4, weight),
                                       .largest2 = states.of<float>(5, weight),
                                       .scalars = scalars};
    walk.run(walk.backend().adamw8, {&tensor, 1, &state->scalars});
  }

  GaloreSettings settings_;
  std::int64_t least_elements_;
  bool in_8_bits_;
  Decay decay_;
};

}  // namespace

std::unique_ptr<Method> make_galore(const GaloreSettings& settings, std::int64_t least_elements, bool in_8_bits) {
  return std::make_unique<Galore>(settings, least_elements, in_8_bits);
}

}  // namespace comera::train
