// Ten steps of each method against an independent implementation (tests/oracle/memory_methods.py), in double on the
// reference.
#include "tests/oracle/memory_methods.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <span>

#include "lib/engine/engine.h"
#include "lib/layers/activations/policy.h"
#include "lib/train/optimizer.h"
#include "tests/engine/toy_model.h"

using namespace comera;
using engine::Engine;
using layers::Activations;
using layers::Parameter;

namespace {

constexpr const char* names[] = {"table.weight", "up.weight", "up.bias", "down.weight", "down.bias"};

std::unique_ptr<Engine> engine_of(const Activations& activations, const train::OptimizerOptions& options) {
  const plan::Machine machine{&kernels::reference_backend(), DType::f64, nullptr};
  engine::EngineOptions settings{.recompute = activations.recompute, .update = train::optimizer(options)};
  if (!activations.rules.empty()) settings.keeper = std::make_shared<layers::RuledKeeper>(activations);
  auto engine = std::make_unique<Engine>(machine, toy::factory(DType::f64, {.dense = true, .dropout = 0}), settings);
  engine->allocate();
  for (int k = 0; k < 5; ++k) {
    const Parameter* parameter = engine->model().parameters().find(names[k]);
    REQUIRE(parameter);
    for (std::int64_t i = 0; i < parameter->shape.elements(); ++i)
      layers::store(parameter->value, i, 0.3 * std::sin(1.7 * static_cast<double>(i) + k));
  }
  engine->weights_changed();
  return engine;
}

// `parts`: micro-batches of a step.
std::vector<double> after_ten_steps(Engine& engine, int parts) {
  for (int step = 0; step < 10; ++step) {
    engine.begin_step(9, {.step = step, .rates = {0, 0, 0.02}});
    std::vector<data::Batch> batches;
    for (int part = 0; part < parts; ++part) batches.push_back(toy::batch(16 * step + part * (16 / parts), 16 / parts));
    engine.train(batches);
  }
  std::vector<double> numbers;
  for (const char* name : {"up.weight", "down.weight"}) {
    const Parameter* parameter = engine.model().parameters().find(name);
    for (std::int64_t i = 0; i < parameter->shape.elements(); ++i) numbers.push_back(layers::load(parameter->value, i));
  }
  return numbers;
}

train::OptimizerOptions options() {
  train::OptimizerOptions options;
  options.max_norm = 0.5;
  options.adamw.weight_decay = 0.1;
  return options;
}

// The numbers are printed with 15 digits. A rounding of a gradient is up to 1e-16 of it; Adam's direction passes on its
// relative error, tenfold where the two moments nearly cancel, in ten steps of at most 0.02.
void check(const std::vector<double>& found, std::span<const double> wanted) {
  REQUIRE(found.size() == wanted.size());
  for (std::size_t i = 0; i < found.size(); ++i) CHECK(std::abs(found[i] - wanted[i]) < 1e-11);
}

Activations compact() {
  Activations activations = layers::parse_activations({"compact"});
  activations.projected = {.kind = kernels::SketchKind::normal, .rank = 5, .refresh = 4, .scale = 0.7};
  return activations;
}

}  // namespace

TEST_CASE("memory methods: AdamW is that of the formulas") {
  check(after_ten_steps(*engine_of({}, options()), 1), oracle::adamw);
}

TEST_CASE("memory methods: compact is CompAct of the formulas, with any number of micro-batches") {
  for (const int parts : {1, 2, 4}) check(after_ten_steps(*engine_of(compact(), options()), parts), oracle::compact);
}

TEST_CASE("memory methods: apollo-mini is APOLLO-Mini of the formulas, with a row of moments per weight") {
  train::OptimizerOptions settings = options();
  settings.method = "apollo-mini", settings.least_elements = 100;
  const auto engine = engine_of({}, settings);
  const Parameter& up = *engine->model().parameters().find("up.weight");  // [12, 16]
  CHECK(engine->weights().state(0, up.index).shape == Shape{0});
  CHECK(engine->weights().state(2, up.index).shape == Shape{16});
  check(after_ten_steps(*engine, 1), oracle::apollo_mini);
}

TEST_CASE("memory methods: compact keeps gradients and moments in the subspace") {
  const auto engine = engine_of(compact(), options());
  const Parameter& up = *engine->model().parameters().find("up.weight");
  CHECK(up.gradient_shape() == Shape{5, 16});
  CHECK(engine->weights().state(0, up.index).shape == Shape{5, 16});
  CHECK(engine->weights().state(1, up.index).shape == Shape{5, 16});
  const Parameter& down = *engine->model().parameters().find("down.weight");
  CHECK(down.gradient_shape() == down.shape);
}
