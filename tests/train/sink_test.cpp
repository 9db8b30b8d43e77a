#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "kernels/elementwise.h"
#include "lib/engine/engine.h"
#include "tests/engine/toy_model.h"

using namespace comera;
using engine::Engine;
using layers::Parameter;
using layers::Tensor;
using layers::Walk;

namespace {

constexpr double rate = 0.05;

// Applies plain SGD as soon as a gradient is complete. It needs no optimiser.
class ApplySink final : public layers::Sink {
 public:
  ApplySink(layers::Parameters& parameters, plan::Slab& step_gradients, std::map<std::string, int>& completed)
      : plain_(layers::make_accumulate_sink(parameters, step_gradients)), completed_(completed) {}

  void apply_by(Apply) override {}
  void begin(Walk& walk) override { plain_->begin(walk); }
  Tensor open(Walk& walk, Parameter& parameter) override { return plain_->open(walk, parameter); }
  void close(Walk& walk, Parameter& parameter, Tensor& gradient) override { plain_->close(walk, parameter, gradient); }
  void complete(Walk& walk, Parameter& parameter) override {
    if (walk.computes()) ++completed_[parameter.name];
    const Tensor gradient = plain_->gradient(parameter);
    walk.run(walk.backend().add_scaled,
             kernels::AddScaled{parameter.shape.elements(), -rate, gradient.data, parameter.value.data});
  }
  Tensor gradient(const Parameter&) const override { return {}; }
  void release(Walk& walk) override { plain_->release(walk); }

 private:
  std::unique_ptr<layers::Sink> plain_;
  std::map<std::string, int>& completed_;
};

// The same as an update at the end of the step.
class SgdUpdate final : public engine::WeightUpdate {
 public:
  SgdUpdate(engine::Weights& weights, const layers::Sink& sink) : weights_(weights), sink_(sink) {}
  void run(Walk& walk, layers::StepState*) override {
    for (const Parameter& parameter : weights_.model().parameters().all())
      walk.run(walk.backend().add_scaled, kernels::AddScaled{parameter.shape.elements(), -rate,
                                                             sink_.gradient(parameter).data, parameter.value.data});
  }

 private:
  engine::Weights& weights_;
  const layers::Sink& sink_;
};

class NoUpdate final : public engine::WeightUpdate {
 public:
  void run(Walk&, layers::StepState*) override {}
};

template <class Update>
class Rule final : public engine::UpdateRule {
 public:
  std::vector<engine::ParameterState> state() const override { return {}; }
  std::unique_ptr<engine::WeightUpdate> make(engine::Weights& weights, const layers::Sink& sink) const override {
    if constexpr (std::is_constructible_v<Update, engine::Weights&, const layers::Sink&>)
      return std::make_unique<Update>(weights, sink);
    else
      return std::make_unique<Update>();
  }
};

std::unique_ptr<Engine> start(const engine::EngineOptions& options) {
  const plan::Machine machine{&kernels::reference_backend(), DType::f64, nullptr};
  auto engine = std::make_unique<Engine>(machine, toy::factory(DType::f64), options);
  engine->allocate();
  engine->weights().initialise(11);
  return engine;
}

}  // namespace

TEST_CASE("a sink that applies complete gradients at once trains to the same bytes as an update at the end") {
  std::map<std::string, int> completed;
  const auto at_once = start({.update = std::make_shared<Rule<NoUpdate>>(),
                              .sink = [&](layers::Parameters& parameters, plan::Slab& step_gradients) {
                                return std::make_unique<ApplySink>(parameters, step_gradients, completed);
                              }});
  const auto at_the_end = start({.update = std::make_shared<Rule<SgdUpdate>>()});
  const data::Batch batches[] = {toy::batch(0, 16), toy::batch(16, 16), toy::batch(32, 8)};
  const data::Batch dev = toy::batch(1000, 32);
  const double before = at_once->evaluate(dev).loss;
  constexpr int steps = 8;
  for (int step = 0; step < steps; ++step)
    for (Engine* engine : {at_once.get(), at_the_end.get()}) {
      engine->state().scalars.step = static_cast<std::uint64_t>(step);
      engine->train(batches);
    }
  CHECK(at_once->evaluate(dev).loss < before);
  for (const Parameter& parameter : at_the_end->model().parameters().all()) {
    const Parameter& other = *at_once->model().parameters().find(parameter.name);
    CHECK(std::memcmp(parameter.value.data, other.value.data, parameter.value.bytes()) == 0);
    CHECK(completed[parameter.name] == steps);  // once per step, with three micro-batches in it
  }
}
