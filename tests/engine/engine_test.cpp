#include "lib/engine/engine.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <new>

#include "kernels/cuda/common/runtime.h"
#include "kernels/cuda/emulator/queue.h"
#include "lib/train/optimizer.h"
#include "tests/engine/toy_model.h"

using namespace comera;
using engine::Engine;

namespace {

std::atomic<std::int64_t> allocations{0};

std::vector<double> values_of(Engine& engine) {
  std::vector<double> values;
  for (const layers::Parameter& parameter : engine.model().parameters().all())
    for (std::int64_t i = 0; i < parameter.shape.elements(); ++i) values.push_back(layers::load(parameter.value, i));
  return values;
}

plan::Machine reference(DType dtype = DType::f64) { return {&kernels::reference_backend(), dtype, nullptr}; }

void begin_step(Engine& engine, std::int64_t step, double rate) {
  engine.begin_step(5, {.step = step, .rates = {rate, rate, rate, rate}});
}

void begin(Engine& engine) {
  engine.allocate();
  engine.weights().initialise(3);
}

}  // namespace

void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* data = std::malloc(bytes)) return data;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* data) noexcept { std::free(data); }
[[gnu::noinline]] void operator delete(void* data, std::size_t) noexcept { std::free(data); }

TEST_CASE("k micro-batches of size b equal one batch of size k b") {
  std::vector<std::vector<double>> runs;
  for (int parts : {1, 2, 4}) {
    Engine engine(reference(), toy::factory(DType::f64), {.update = train::optimizer()});
    begin(engine);
    for (std::uint64_t step = 0; step < 5; ++step) {
      std::vector<data::Batch> batches;
      for (int part = 0; part < parts; ++part)
        batches.push_back(toy::batch(static_cast<std::int64_t>(step) * 8 + part * (8 / parts), 8 / parts));
      begin_step(engine, step, 1e-3);
      engine.train(batches);
    }
    runs.push_back(values_of(engine));
  }
  for (std::size_t run = 1; run < runs.size(); ++run)
    for (std::size_t i = 0; i < runs[0].size(); ++i)
      CHECK(runs[run][i] == Approx(runs[0][i]).epsilon(1e-9).margin(1e-11));
}

TEST_CASE("training reduces the loss of an evaluation") {
  Engine engine(reference(DType::f32), toy::factory(DType::f32), {.update = train::optimizer()});
  begin(engine);
  const data::Batch dev = toy::batch(100000, 64);
  const double before = engine.evaluate(dev).loss;
  for (std::uint64_t step = 0; step < 300; ++step) {
    const data::Batch batch = toy::batch(static_cast<std::int64_t>(step) * 16, 16);
    begin_step(engine, step, 1e-2);
    engine.train({&batch, 1});
    REQUIRE(engine.state().scalars.finite == 1);
  }
  const engine::Scores scores = engine.evaluate(dev);
  CHECK(scores.loss < 0.2 * before);
  CHECK(scores.correct > 56);
  REQUIRE(scores.best.size() == 64);
  double hits = 0;
  for (std::size_t i = 0; i < 64; ++i) hits += scores.best[i] == dev["labels"].as<std::int32_t>()[i];
  CHECK(hits == scores.correct);
}

TEST_CASE("at a known shape a step allocates nothing, from the heap or the system") {
  static std::int64_t arenas;
  const char* error = nullptr;
  // Not the reference backend, whose arithmetic allocates from the heap.
  kernels::Backend counting = *kernels::cpu_backend("auto", &error);
  if (!counting.ttm_forward.run) {
    WARN("the CPU backend of this build lacks an op: allocations are not counted");
    return;
  }
  counting.memory.allocate = [](std::size_t bytes) { return ++arenas, kernels::host_memory().allocate(bytes); };
  Engine engine({&counting, DType::f32, nullptr}, toy::factory(DType::f32), {.update = train::optimizer()});
  begin(engine);
  const data::Batch small = toy::batch(0, 4), large = toy::batch(0, 16);
  for (const data::Batch* batch : {&small, &large}) {
    engine.train({batch, 1});
    engine.evaluate(*batch);
  }
  const std::int64_t before = allocations, arenas_before = arenas;
  for (int step = 0; step < 3; ++step)
    for (const data::Batch* batch : {&small, &large}) {
      engine.train({batch, 1});
      engine.evaluate(*batch);
    }
  CHECK(allocations == before);
  CHECK(arenas == arenas_before);
  const data::Batch larger = toy::batch(0, 64);
  engine.train({&larger, 1});
  CHECK(arenas == arenas_before + 1);
}

// A step of a model and an optimiser.
struct PolledStep {
  toy::Options model = {};
  train::OptimizerOptions optimizer = {};
  std::size_t parts = 2;

  // The values after a step whose poll throws at its `at`th call, if there is one, and those after the whole step.
  struct Values {
    std::optional<std::vector<double>> abandoned;
    std::vector<double> whole;
  };
  Values run(int at) const {
    struct Abandoned {};
    int calls = 0;
    engine::EngineOptions options{.update = train::optimizer(optimizer)};
    options.poll = [&] {
      if (calls++ == at) throw Abandoned();
    };
    Engine engine(reference(), toy::factory(DType::f64, model), options);
    begin(engine);
    Values values;
    const data::Batch batches[] = {toy::batch(0, 4), toy::batch(4, 4)};
    begin_step(engine, 1, 1e-2);
    try {
      engine.train(std::span(batches).first(parts));
    } catch (const Abandoned&) {
      values.abandoned = values_of(engine);
      begin_step(engine, 1, 1e-2);
      engine.train(std::span(batches).first(parts));
    }
    values.whole = values_of(engine);
    return values;
  }
  std::vector<double> before() const {
    Engine engine(reference(), toy::factory(DType::f64, model), {.update = train::optimizer(optimizer)});
    begin(engine);
    return values_of(engine);
  }
};

TEST_CASE("a step that its poll abandons changes no weight, and is repeated with the same result") {
  PolledStep adamw, lomo;  // one updates at the end of the step, the other in the backward
  lomo.model.dense = true, lomo.optimizer.max_norm = 0, lomo.parts = 1;
  lomo.optimizer.methods = {.rules = train::parse_methods({"lomo"}), .least_elements = 100};
  int polls[2] = {};
  for (const PolledStep* step : {&adamw, &lomo}) {
    const std::vector<double> before = step->before(), whole = step->run(-1).whole;
    REQUIRE(whole != before);
    int& at = polls[step == &lomo];
    for (;; ++at) {
      const PolledStep::Values values = step->run(at);
      CHECK(values.whole == whole);
      if (!values.abandoned) break;
      CHECK(*values.abandoned == before);
    }
  }
  CHECK(polls[0] > 20);  // of the forward and the backward, twice
  CHECK(polls[1] > 3);   // of the forward
  CHECK(polls[1] < polls[0] / 2);
}

TEST_CASE("a loss that is not finite changes no weight") {
  Engine engine(reference(), toy::factory(DType::f64), {.update = train::optimizer()});
  begin(engine);
  const data::Batch batch = toy::batch(0, 8);
  begin_step(engine, 0, 1e-3);
  layers::store(engine.model().parameters().find("down.bias")->value, 0, std::nan(""));
  const std::vector<double> before = values_of(engine);
  engine.train({&batch, 1});
  CHECK(engine.state().scalars.finite == 0);
  const std::vector<double> after = values_of(engine);
  for (std::size_t i = 0; i < before.size(); ++i) CHECK((std::isnan(before[i]) || after[i] == before[i]));
}

TEST_CASE("the memory table names every byte of the arenas, and needs no data") {
  Engine engine(reference(DType::f32), toy::factory(DType::f32), {.update = train::optimizer()});
  engine.plan_training(engine.model().planning_batch(32, 8, 0));
  const engine::MemoryTable table = engine.memory_table(2);
  CHECK(!engine.weights().allocated());
  CHECK(table.peak == engine.planned_bytes());
  CHECK(std::accumulate(table.bytes.begin(), table.bytes.end(), std::size_t{0}) == table.peak);
  CHECK(table.of(plan::Category::weights) >= static_cast<std::size_t>(engine.model().parameters().count()) * 4);
  CHECK(table.of(plan::Category::optimizer) == 2 * table.of(plan::Category::weights));
  CHECK(table.of(plan::Category::saved) > 0);
  CHECK(table.flops > 2 * 3 * 2.0 * 32 * 16 * 3);
}

TEST_CASE("kernels that an evaluation calls first are in the memory table, and not counted again") {
  kernels::cuda::emulator::unload_all();
  const plan::Machine machine{&kernels::cuda::table(), DType::f32, nullptr};
  const engine::MemoryMeter memory(machine);
  Engine engine(machine, toy::factory(DType::f32), {});
  for (const std::int64_t sequences : {8, 8, 6}) {
    engine.evaluate(toy::batch(0, sequences));
    CHECK(engine.driver_bytes() > 0);
    CHECK(memory.peak() == engine.planned_bytes() + engine.driver_bytes());
  }
}

TEST_CASE(
    "gradients are set to zero by one call at the start of a step and one before core gradients, for any number of "
    "cores") {
  Engine engine(reference(DType::f32), toy::factory(DType::f32), {.update = train::optimizer()});
  engine.plan_training(toy::batch(0, 8));
  std::int64_t fills = 0;
  for (const plan::OpCount& count : engine.op_counts())
    if (std::string_view(count.op) == "fill") fills += count.calls;
  CHECK(fills == 2);
}
