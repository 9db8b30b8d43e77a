// Rates of cores in a step of AdamW.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "lib/engine/engine.h"
#include "lib/train/optimizer.h"
#include "tests/engine/toy_model.h"

using namespace comera;
using layers::Parameter;

namespace {

// The largest change of each parameter in the first step.
std::map<std::string, double> first_changes(bool structured) {
  train::OptimizerOptions options;
  options.structured_rates = structured;
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
  engine.begin_step(9, {.step = 0, .rates = {1e-3, 1e-3, 1e-3, 1e-3}});
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

}  // namespace

TEST_CASE("structured rates scale the update of cores, and of nothing else") {
  const auto uniform = first_changes(false), structured = first_changes(true);
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
