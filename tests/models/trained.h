// A small model after three steps under the policies of --activations.
#pragma once

#include <catch2/catch.hpp>

#include "lib/layers/activations/policy.h"
#include "lib/train/optimizer.h"
#include "tests/models/small_models.h"
#include "tests/models/weights.h"

namespace comera {

struct Trained {
  std::vector<double> numbers;  // losses and weights
  std::size_t bytes = 0;        // planned on the device
};

inline Trained trained(const kernels::Backend& backend, const models::ModelSpec& spec,
                       const std::vector<std::string>& words, int parts) {
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
  append_weights(engine, machine, result.numbers);
  result.bytes = engine.planned_bytes();
  return result;
}

}  // namespace comera
