// The weights of a model, from the memory of its machine.
#pragma once

#include "lib/engine/engine.h"

namespace comera {

inline void append_weights(engine::Engine& engine, const plan::Machine& machine, std::vector<double>& numbers) {
  for (const layers::Parameter& parameter : engine.model().parameters().all()) {
    const engine::HostBytes host(machine, parameter.value);
    for (std::int64_t i = 0; i < parameter.shape.elements(); ++i) numbers.push_back(layers::load(host.tensor(), i));
  }
}

}  // namespace comera
