// Whole models whose values for the backward go to host memory: on the emulator, whose copies end as late as they may,
// and on the reference, which copies at once.
#include <catch2/catch.hpp>

#include "kernels/cuda/common/runtime.h"
#include "lib/engine/engine.h"
#include "lib/layers/activations/policy.h"
#include "lib/train/optimizer.h"
#include "tests/models/small_models.h"

using namespace comera;

namespace {

struct Trained {
  std::vector<double> numbers;  // losses and weights
  std::size_t bytes = 0;        // planned on the device
};

Trained trained(const kernels::Backend& backend, const models::ModelSpec& spec, const std::vector<std::string>& words,
                int parts) {
  layers::Activations activations = layers::parse_activations(words);
  activations.offloading.bandwidth = 1e30;  // every copy is hidden
  engine::EngineOptions options{.recompute = activations.recompute, .update = train::optimizer()};
  if (!activations.rules.empty()) options.keeper = std::make_shared<layers::RuledKeeper>(activations);
  const plan::Machine machine{&backend, DType::f32, nullptr};
  engine::Engine engine(machine, models::factory_of(spec, DType::f32), options);
  engine.allocate();
  engine.weights().initialise(11);
  std::vector<data::Batch> batches;
  for (int part = 0; part < parts; ++part) batches.push_back(small_batch(spec));
  Trained result;
  for (int step = 0; step < 3; ++step) {
    engine.begin_step(5, {.step = step, .rates = {1e-2, 1e-2, 1e-2, 1e-2}});
    engine.train(batches);
    REQUIRE(engine.state().scalars.finite == 1);
    result.numbers.push_back(engine.state().loss[0]);
  }
  for (const layers::Parameter& parameter : engine.model().parameters().all()) {
    const engine::HostBytes host(machine, parameter.value);
    for (std::int64_t i = 0; i < parameter.shape.elements(); ++i)
      result.numbers.push_back(layers::load(host.tensor(), i));
  }
  result.bytes = engine.planned_bytes();
  return result;
}

void check_equal(const models::ModelSpec& spec, const std::vector<std::string>& kept,
                 const std::vector<std::string>& offloaded, int parts) {
  for (const kernels::Backend* backend : {&kernels::cuda::table(), &kernels::reference_backend()}) {
    CAPTURE(backend->name, parts);
    const Trained exact = trained(*backend, spec, kept, parts), away = trained(*backend, spec, offloaded, parts);
    CHECK(exact.numbers == away.numbers);
    CHECK(away.bytes < exact.bytes);
  }
}

}  // namespace

TEST_CASE("offload: a step has the bytes of a step that keeps its values on the device, in less memory there") {
  for (const int parts : {1, 2}) {
    check_equal(small_decoder(models::Form::dense, false), {"keep"}, {"offload"}, parts);
    check_equal(small_decoder(models::Form::tt, true), {"keep"}, {"offload"}, parts);
    check_equal(small_encoder(false, models::Task::classify, models::Form::dense), {"keep"}, {"offload"}, parts);
  }
}

TEST_CASE("offload: it combines with recomputation, with sharing and with copies by name") {
  const models::ModelSpec spec = small_decoder(models::Form::dense, false);
  check_equal(spec, {"cheap"}, {"cheap", "offload"}, 1);
  check_equal(spec, {"share"}, {"share", "offload"}, 1);
  check_equal(spec, {"*mlp*=int8"}, {"offload", "*mlp*=int8"}, 1);
  const Trained block = trained(kernels::cuda::table(), spec, {"block"}, 1),
                away = trained(kernels::cuda::table(), spec, {"block", "offload"}, 1);
  CHECK(block.numbers == away.numbers);
}
