// Rates of cores in a step of AdamW.
#include "lib/train/core_rates.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "lib/engine/engine.h"
#include "lib/train/optimizer.h"
#include "lib/train/stored_chain.h"
#include "tests/engine/toy_model.h"

using namespace comera;
using layers::Parameter;

namespace {

// The largest change of each parameter in the first step.
std::map<std::string, double> first_changes(const train::OptimizerOptions& options,
                                            std::optional<double> rate_table_cores = {}) {
  const plan::Machine machine{&kernels::reference_backend(), DType::f64, nullptr};
  engine::Engine engine(machine, toy::factory(DType::f64, {.dense = false, .dropout = 0}),
                        {.update = train::optimizer(options)});
  engine.allocate();
  engine.weights().initialise(3);
  std::map<std::string, double> changes;
  std::map<std::string, std::vector<double>> before;
  for (const Parameter& parameter : engine.model().parameters().all())
    for (std::int64_t i = 0; i < parameter.shape.elements(); ++i)
      before[parameter.name].push_back(layers::load(parameter.value, i));
  engine.begin_step(9, {.step = 0, .rates = {1e-3, 1e-3, 1e-3, 1e-3}, .rate_table_cores = rate_table_cores});
  std::vector<data::Batch> batches;
  batches.push_back(toy::batch(0, 8));
  engine.train(batches);
  for (const Parameter& parameter : engine.model().parameters().all())
    for (std::int64_t i = 0; i < parameter.shape.elements(); ++i) {
      double& largest = changes[parameter.name];
      largest = std::max(
          largest, std::abs(layers::load(parameter.value, i) - before[parameter.name][static_cast<std::size_t>(i)]));
    }
  return changes;
}

std::unique_ptr<engine::Engine> toy_engine(const train::OptimizerOptions& options = {}) {
  const plan::Machine machine{&kernels::reference_backend(), DType::f64, nullptr};
  auto engine = std::make_unique<engine::Engine>(machine, toy::factory(DType::f64, {.dense = false, .dropout = 0}),
                                                 engine::EngineOptions{.update = train::optimizer(options)});
  engine->allocate();
  engine->weights().initialise(3);
  return engine;
}

void scale(const Parameter& parameter, double by) {
  for (std::int64_t i = 0; i < parameter.shape.elements(); ++i)
    layers::store(parameter.value, i, by * layers::load(parameter.value, i));
}

tt::Matrix weight_of(engine::Engine& engine, const layers::ChainParameters& chain) {
  const tt::Pair pair = tt::factors(train::read_chain(engine.weights().machine(), chain));
  return tt::multiply(pair.left, pair.right);
}

}  // namespace

TEST_CASE("structured rates scale the update of cores, and of nothing else") {
  const auto uniform = first_changes({}), structured = first_changes({.structured_rates = true});
  const auto model = toy::factory(DType::f64, {.dense = false, .dropout = 0})({});
  int cores = 0;
  for (const Parameter& parameter : model->parameters().all()) {
    const bool core = parameter.role == layers::Role::core;
    INFO(parameter.name);
    if (core) CHECK(uniform.at(parameter.name) > 1e-4);
    const double factor = core ? parameter.structured_rate : 1;
    CHECK(structured.at(parameter.name) ==
          Approx(factor * uniform.at(parameter.name)).epsilon(1e-6));  // the factor is a float
    cores += core && std::abs(factor - 1) > 0.05;
  }
  CHECK(cores >= 4);
}

TEST_CASE("cores of tables have a rate of their own") {
  const auto plain = first_changes({}), own = first_changes({}, 4e-3);
  const auto model = toy::factory(DType::f64, {.dense = false, .dropout = 0})({});
  int of_tables = 0;
  for (const Parameter& parameter : model->parameters().all()) {
    INFO(parameter.name);
    CHECK(own.at(parameter.name) == Approx((parameter.of_table ? 4 : 1) * plain.at(parameter.name)).epsilon(1e-6));
    of_tables += parameter.of_table;
  }
  CHECK(of_tables >= 2);
}

TEST_CASE("rates of stored cores grow and shrink with the cores while the weight stays") {
  const auto engine = toy_engine();
  const train::CoreRates before = train::stored_core_rates(engine->weights());
  REQUIRE(!before.empty());
  for (const layers::ChainParameters& chain : engine->model().chains())
    if (before.contains(chain.name)) scale(*chain.cores.front(), 8), scale(*chain.cores.back(), 1.0 / 8);
  const train::CoreRates after = train::stored_core_rates(engine->weights());
  REQUIRE(after.size() == before.size());
  for (const auto& [name, factors] : after) {
    CAPTURE(name);
    CHECK(factors.front() == Approx(std::min(8 * before.at(name).front(), 10.0)));
    CHECK(factors.back() == Approx(before.at(name).back() / 8));
  }
}

TEST_CASE("with rates of stored cores a step moves a weight no further than a dense one, whatever its gauge is") {
  for (const double gauge : {1.0, 30.0}) {
    train::OptimizerOptions options;
    options.structured_rates = true;
    options.adamw.weight_decay = options.beta = 0;
    const auto engine = toy_engine(options);
    for (const layers::ChainParameters& chain : engine->model().chains())
      if (chain.layout.kind == tt::Kind::tt) scale(*chain.cores.front(), gauge), scale(*chain.cores.back(), 1 / gauge);
    train::set_core_rates(engine->model(), train::stored_core_rates(engine->weights()));
    std::map<std::string, tt::Matrix> before;
    for (const layers::ChainParameters& chain : engine->model().chains())
      if (chain.layout.kind == tt::Kind::tt) before[chain.name] = weight_of(*engine, chain);
    REQUIRE(!before.empty());
    const double rate = 1e-6;
    engine->begin_step(9, {.step = 0, .rates = {rate, 0, 0, 0}});
    std::vector<data::Batch> batches;
    batches.push_back(toy::batch(0, 8));
    engine->train(batches);
    for (const layers::ChainParameters& chain : engine->model().chains()) {
      if (!before.contains(chain.name)) continue;
      const tt::Matrix change = tt::difference(weight_of(*engine, chain), before[chain.name]);
      const double dense = rate * std::sqrt(static_cast<double>(change.rows * change.columns));
      const double moved = tt::svd(change).values.front() / dense;
      CAPTURE(chain.name, gauge, moved);
      CHECK(moved <= std::sqrt(static_cast<double>(chain.layout.cores())) * 1.001);
      CHECK(moved > 0.01);
    }
  }
}
