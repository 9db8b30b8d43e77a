// Decay of the norm of weights in TT form in a step of AdamW.
#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "kernels/chain_decay.h"
#include "lib/engine/engine.h"
#include "lib/train/optimizer.h"
#include "tests/engine/toy_model.h"

using namespace comera;
using layers::Parameter;

namespace {

using Values = std::map<std::string, std::vector<double>>;
constexpr double rate = 1e-3;

Values values_of(const layers::Model& model) {
  Values values;
  for (const Parameter& parameter : model.parameters().all())
    for (std::int64_t i = 0; i < parameter.shape.elements(); ++i)
      values[parameter.name].push_back(layers::load(parameter.value, i));
  return values;
}

struct Setting {
  double weight_decay = 0, weight_norm_decay = 0;
};

template <class Use>
void with_engine(const Setting& setting, Use use) {
  train::OptimizerOptions options;
  options.adamw.weight_decay = setting.weight_decay, options.weight_norm_decay = setting.weight_norm_decay;
  const plan::Machine machine{&kernels::reference_backend(), DType::f64, nullptr};
  engine::Engine engine(machine, toy::factory(DType::f64, {.dense = false, .dropout = 0}),
                        {.update = train::optimizer(options)});
  engine.allocate();
  engine.weights().initialise(3);
  use(engine);
}

Values after_a_step(const Setting& setting) {
  Values values;
  with_engine(setting, [&](engine::Engine& engine) {
    engine.begin_step(9, {.step = 0, .rates = {rate, rate, rate, rate}});
    std::vector<data::Batch> batches;
    batches.push_back(toy::batch(0, 8));
    engine.train(batches);
    values = values_of(engine.model());
  });
  return values;
}

// The op alone on the initial values, in a step that decays for eight.
Values decayed(double decay) {
  Values values;
  with_engine({}, [&](engine::Engine& engine) {
    kernels::AdamwScalars scalars;
    scalars.learning_rate = rate;
    kernels::StepScalars step;
    step.finite = 1;
    for (const layers::ChainParameters& chain : engine.model().chains()) {
      kernels::DecayingChain c;
      c.cores = static_cast<int>(chain.cores.size()), c.scalars = &scalars;
      std::copy(chain.layout.ranks.begin(), chain.layout.ranks.end(), c.ranks);
      for (std::size_t k = 0; k < chain.cores.size(); ++k)
        c.sizes[k] = chain.layout.entry_size(k), c.values[k] = chain.cores[k]->value.data;
      for (std::size_t k = 0; k < chain.diagonals.size(); ++k) c.diagonals[k] = chain.diagonals[k]->value.data;
      const kernels::Context context{DType::f64};
      REQUIRE(kernels::reference_backend().chain_decay.run(
                  context, {&c, 1, decay, engine.model().threshold(), &step, 8}) == kernels::Status::ok);
    }
    values = values_of(engine.model());
  });
  return values;
}

void check_same(const std::string& name, const std::vector<double>& a, const std::vector<double>& b) {
  INFO(name);
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(a[i] == Approx(b[i]).epsilon(1e-12).margin(1e-14));
}

}  // namespace

TEST_CASE("decay of the norm comes before the update, which it does not change") {
  const Values start = decayed(0), plain = after_a_step({}), both = after_a_step({0, 20}), alone = decayed(20);
  double largest = 0;
  for (const auto& [name, values] : both) {
    std::vector<double> expected(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double change = alone.at(name)[i] - start.at(name)[i];
      expected[i] = plain.at(name)[i] + change;
      largest = std::max(largest, std::abs(change));
    }
    check_same(name, values, expected);
  }
  CHECK(largest > 1e-4);
}

TEST_CASE("cores whose weight decays by its norm do not decay by themselves; dense matrices do") {
  const Values none = after_a_step({0, 2}), both = after_a_step({0.5, 2});
  const auto model = toy::factory(DType::f64, {.dense = false, .dropout = 0})({});
  int dense = 0;
  for (const Parameter& parameter : model->parameters().all()) {
    if (parameter.role == layers::Role::core || !parameter.decay) {
      check_same(parameter.name, none.at(parameter.name), both.at(parameter.name));
      continue;
    }
    ++dense;
    INFO(parameter.name);
    CHECK(none.at(parameter.name) != both.at(parameter.name));
  }
  CHECK(dense > 0);
}
