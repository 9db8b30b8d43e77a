#include <catch2/catch.hpp>
#include <cstring>

#include "kernels/elementwise.h"
#include "lib/engine/weights_file.h"
#include "lib/train/rank_adaptation.h"
#include "lib/train/updates/method.h"
#include "tests/train/toy_run.h"

using namespace comera;
using engine::Engine;
using layers::Parameter;
using layers::Walk;

namespace {

constexpr double momentum = 0.9;

// Plain SGD with momentum: v <- momentum v + g, w <- w - rate v. The rate is a scalar of the step.
class MomentumUpdate final : public engine::WeightUpdate {
 public:
  MomentumUpdate(engine::Weights& weights, const layers::Sink& sink) : weights_(weights), sink_(sink) {}

  void run(Walk& walk, layers::StepState* state) override {
    double rate = 0;  // on the host, where this test runs
    if (walk.computes()) std::memcpy(&rate, state->update, sizeof rate);
    for (const Parameter& parameter : weights_.model().parameters().all()) {
      const std::int64_t count = parameter.shape.elements();
      void* velocity = weights_.state(0, parameter.index).data;
      const auto add = [&](double scale, const void* x, void* y) {
        walk.run(walk.backend().add_scaled, kernels::AddScaled{count, scale, x, y});
      };
      add(momentum - 1, velocity, velocity);
      add(1, sink_.gradient(parameter).data, velocity);
      add(-rate, velocity, parameter.value.data);
    }
  }

 private:
  engine::Weights& weights_;
  const layers::Sink& sink_;
};

// Declares beside the velocity one number per parameter, which no removal can slice.
class Momentum final : public engine::UpdateRule {
 public:
  std::vector<engine::ParameterState> state() const override {
    return {{"velocity"}, {"norm", [](const Parameter&) { return Shape{1}; }}};
  }
  std::size_t scalar_bytes() const override { return sizeof(double); }
  void write_scalars(const engine::UpdateStep& step, std::span<std::byte> to) const override {
    std::memcpy(to.data(), &step.rates[static_cast<int>(layers::Role::other)], to.size());
  }
  std::unique_ptr<engine::WeightUpdate> make(engine::Weights& weights, const layers::Sink& sink) const override {
    return std::make_unique<MomentumUpdate>(weights, sink);
  }
};

std::unique_ptr<Engine> start() {
  const plan::Machine machine{&kernels::reference_backend(), DType::f64, nullptr};
  auto engine = std::make_unique<Engine>(machine, toy::factory(DType::f64),
                                         engine::EngineOptions{.update = std::make_shared<Momentum>()});
  engine->allocate();
  engine->weights().initialise(11);
  return engine;
}

void run_steps(Engine& engine, int first, int last) {
  const data::Batch batch = toy::batch(0, 16);
  for (int step = first; step < last; ++step) {
    engine.begin_step(0, {.step = step, .rates = {0, 0, 0.003, 0.003}});
    engine.train({&batch, 1});
  }
}

void check_equal(Engine& a, Engine& b) {
  for (const Parameter& parameter : a.weights().model().parameters().all()) {
    const Parameter& other = *b.weights().model().parameters().find(parameter.name);
    CHECK(std::memcmp(parameter.value.data, other.value.data, parameter.value.bytes()) == 0);
    CHECK(std::memcmp(a.weights().state(0, parameter.index).data, b.weights().state(0, other.index).data,
                      parameter.value.bytes()) == 0);
  }
}

}  // namespace

TEST_CASE("memory and checkpoints follow from the state that an update declares, and a resumed run is the same bytes") {
  const auto whole = start(), before = start();
  std::size_t numbers = 0;
  for (const Parameter& parameter : whole->model().parameters().all())
    numbers += static_cast<std::size_t>(parameter.shape.elements()) + 1;
  CHECK(whole->weights().state_slab().items().size() == 2 * whole->model().parameters().all().size());
  CHECK(whole->weights().state_slab().bytes() >= numbers * sizeof(double));
  const data::Batch dev = toy::batch(1000, 32);
  const double loss = whole->evaluate(dev).loss;
  run_steps(*whole, 0, 12);
  CHECK(whole->evaluate(dev).loss < loss);

  run_steps(*before, 0, 7);
  const toy::TestFolder folder;
  const Folder opened(folder.path.string());
  engine::save_weights(folder / "model.safetensors", before->weights(), engine::FileTypes::memory);
  engine::save_state(opened, "optimizer.safetensors", before->weights());
  const io::SafetensorsFile stored(folder / "optimizer.safetensors");
  CHECK(stored.find("velocity.up.tt.1")->shape == io::FileShape{3, 4, 6});
  CHECK(stored.find("norm.up.tt.1")->shape == io::FileShape{1});
  const auto resumed = start();
  engine::load_weights(folder / "model.safetensors", resumed->weights());
  engine::load_state(folder / "optimizer.safetensors", resumed->weights());
  resumed->weights_changed();
  run_steps(*resumed, 7, 12);
  check_equal(*whole, *resumed);
}

TEST_CASE("a removal of ranks slices the state of the parameter's shape") {
  const auto engine = start();
  run_steps(*engine, 0, 5);
  const Parameter core = *engine->model().parameters().find("up.tt.1");  // [3, 4, 6]
  const Parameter& diagonal = *engine->model().parameters().find("up.rank.1");
  for (std::int64_t i = 0; i < 6; ++i) layers::store(diagonal.value, i, i % 2 == 0 ? 0.9 : 0.001);
  std::vector<double> wanted;
  for (std::int64_t row = 0; row < 12; ++row)
    for (const std::int64_t column : {0, 2, 4})
      wanted.push_back(layers::load(engine->weights().state(0, core.index), row * 6 + column));
  CHECK(train::remove_all_but(*engine, train::above(train::read_diagonals(engine->weights()), 0.01)) == 3);
  const Parameter& cut = *engine->model().parameters().find("up.tt.1");
  for (std::size_t i = 0; i < wanted.size(); ++i)
    CHECK(layers::load(engine->weights().state(0, cut.index), static_cast<std::int64_t>(i)) == wanted[i]);
  run_steps(*engine, 5, 8);
  CHECK(std::isfinite(engine->evaluate(toy::batch(1000, 32)).loss));
}

TEST_CASE("weights beside subspaces have a scaled update and the decay of all others") {
  train::OptimizerOptions options;
  options.adamw.weight_decay = 0.5;
  options.beside_scale = 0.125;
  train::UpdateScalars scalars;
  train::optimizer(options)->write_scalars({.step = 0, .rates = {0.25, 0.25, 0.25, 0.25}},
                                           std::as_writable_bytes(std::span(&scalars, 1)));
  CHECK(scalars.beside[1].learning_rate == 0.125 * 0.25);
  for (const int decays : {0, 1})
    CHECK(scalars.beside[decays].learning_rate * scalars.beside[decays].weight_decay == decays * 0.5 * 0.25);
}
