#include "lib/train/refactor.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "lib/train/optimizer.h"
#include "tests/engine/toy_model.h"

using namespace comera;
using engine::Engine;
using layers::Parameter;

namespace {

std::unique_ptr<Engine> trained(DType dtype, int steps) {
  train::OptimizerOptions options;
  const plan::Machine machine{&kernels::reference_backend(), dtype, nullptr};
  auto engine = std::make_unique<Engine>(machine, toy::factory(dtype),
                                         engine::EngineOptions{.update = train::optimizer(options)});
  engine->allocate();
  engine->weights().initialise(11);
  for (int step = 0; step < steps; ++step) {
    engine->begin_step(5, {.step = step, .rates = {0.05, 0.05, 0.02, 0.02}});
    const data::Batch batch = toy::batch(16 * step, 16);
    engine->train({&batch, 1});
  }
  return engine;
}

}  // namespace

TEST_CASE("a new factorisation keeps the model's answers, and diagonals and moments begin again") {
  const auto engine = trained(DType::f64, 4);
  const data::Batch dev = toy::batch(1000, 32);
  const double before = engine->evaluate(dev).loss;
  train::refactor(*engine);
  CHECK(std::abs(engine->evaluate(dev).loss - before) < 1e-12 * before);
  for (const layers::ChainParameters& chain : engine->model().chains()) {
    CAPTURE(chain.name);
    for (const auto* parameters : {&chain.cores, &chain.diagonals})
      for (const Parameter* parameter : *parameters)
        for (std::size_t which = 0; which < 2; ++which) {
          const layers::Tensor moment = engine->weights().state(which, parameter->index);
          for (std::int64_t i = 0; i < moment.elements(); ++i) CHECK(layers::load(moment, i) == 0);
        }
    for (const Parameter* diagonal : chain.diagonals)
      for (std::int64_t i = 0; i < diagonal->shape.elements(); ++i) CHECK(layers::load(diagonal->value, i) == 1);
  }
  const Parameter& bias = *engine->model().parameters().find("down.bias");
  CHECK(layers::load(engine->weights().state(0, bias.index), 0) != 0);
}

TEST_CASE("a weight with an activation between its factors keeps its factors; its moments begin again") {
  const auto engine = trained(DType::f64, 4);
  layers::ChainParameters& chain = engine->model().chains().front();
  chain.between = kernels::Activation::silu;
  const auto numbers = [&] {
    std::vector<double> all;
    for (const auto* parameters : {&chain.cores, &chain.diagonals})
      for (const Parameter* parameter : *parameters)
        for (std::int64_t i = 0; i < parameter->shape.elements(); ++i) all.push_back(layers::load(parameter->value, i));
    return all;
  };
  const std::vector<double> before = numbers();
  train::refactor_by_singular_values(*engine);
  CHECK(numbers() == before);
  const layers::Tensor moment = engine->weights().state(0, chain.cores.front()->index);
  for (std::int64_t i = 0; i < moment.elements(); ++i) CHECK(layers::load(moment, i) == 0);
}

// AdamW's first step is lr times the sign of the gradient if epsilon is small beside it; with corrections of the fifth
// step it would be a quarter of that in the first moment and a fourteenth of its root.
TEST_CASE("the corrections of moments begin again after a new factorisation") {
  const auto engine = trained(DType::f64, 4);
  train::refactor(*engine);
  const layers::ChainParameters& chain = engine->model().chains().front();
  std::vector<double> before;
  const Parameter& diagonal = *chain.diagonals.front();
  for (std::int64_t i = 0; i < diagonal.shape.elements(); ++i) before.push_back(layers::load(diagonal.value, i));
  engine->begin_step(5, {.step = 4, .rates = {0.05, 0.05, 0.02, 0.02}, .begun = {4, 4}});
  const data::Batch batch = toy::batch(64, 16);
  engine->train({&batch, 1});
  for (std::size_t i = 0; i < before.size(); ++i) {
    const double step = std::abs(layers::load(diagonal.value, static_cast<std::int64_t>(i)) - before[i]);
    CHECK(step <= 0.05);
    CHECK(step > 0.049);
  }
}

// With left factor L, diagonal D and right factor R at a bond, D_i = sqrt(s_i / s_1) for the singular values s of L D
// R.
TEST_CASE("diagonals of a new factorisation by singular values are their relative roots") {
  const auto engine = trained(DType::f64, 4);
  const data::Batch dev = toy::batch(1000, 32);
  const double before = engine->evaluate(dev).loss;
  train::refactor_by_singular_values(*engine);
  CHECK(std::abs(engine->evaluate(dev).loss - before) < 1e-12 * before);
  for (const layers::ChainParameters& chain : engine->model().chains()) {
    CAPTURE(chain.name);
    // The squared norm of an entry's column in L, summed over cores from the left, is s_i / D_i.
    std::vector<double> weights = {1};
    for (std::size_t bond = 0; bond < chain.diagonals.size(); ++bond) {
      const layers::Tensor& core = chain.cores[bond]->value;
      const auto rank = static_cast<std::size_t>(chain.layout.ranks[bond + 1]);
      const std::size_t middle = static_cast<std::size_t>(core.elements()) / weights.size() / rank;
      std::vector<double> values(rank, 0.0);
      for (std::size_t row = 0; row < weights.size() * middle; ++row)
        for (std::size_t j = 0; j < rank; ++j) {
          const double number = layers::load(core, static_cast<std::int64_t>(row * rank + j));
          values[j] += weights[row / middle] * number * number;
        }
      std::vector<double> diagonal;
      for (std::size_t j = 0; j < rank; ++j) {
        diagonal.push_back(layers::load(chain.diagonals[bond]->value, static_cast<std::int64_t>(j)));
        values[j] *= diagonal[j];  // s_j
      }
      CHECK(diagonal[0] == 1);
      for (std::size_t j = 0; j < rank; ++j)
        CHECK(diagonal[j] == Approx(std::sqrt(values[j] / values[0])).margin(1e-9));
      weights.clear();
      for (std::size_t j = 0; j < rank; ++j) weights.push_back(values[j] * diagonal[j]);  // of (L D)^T L D
    }
  }
}

TEST_CASE("a model without a chain cannot be factorised again") {
  const plan::Machine machine{&kernels::reference_backend(), DType::f64, nullptr};
  Engine engine(machine, toy::factory(DType::f64, {.dense = true}), {});
  CHECK_THROWS_WITH(train::require_refactorable(engine.model()),
                    Catch::Contains("no weight in tensor-train form; use --form lowrank or tt"));
}
