#include "lib/train/importance.h"

#include <catch2/catch.hpp>

#include "lib/train/optimizer.h"
#include "lib/train/removal.h"
#include "tests/engine/toy_model.h"

using namespace comera;

TEST_CASE(
    "the importance of a rank entry is its curvature times its square per parameter, and removals keep it aligned") {
  engine::Engine engine({&kernels::reference_backend(), DType::f64, nullptr}, toy::factory(DType::f64),
                        {.update = train::optimizer()});
  engine.allocate();
  engine.weights().initialise(4);
  for (const layers::ChainParameters& chain : engine.model().chains())
    for (const layers::Parameter* diagonal : chain.diagonals)
      for (std::int64_t i = 0; i < diagonal->shape.elements(); ++i) {
        layers::store(diagonal->value, i, 1.0 - 0.25 * static_cast<double>(i));
        layers::store(engine.weights().state(1, diagonal->index), i, 3.0 + static_cast<double>(i));
      }
  train::Sensitivity sensitivity = train::sensitivity_of(engine.weights(), 1);
  // "up": ranks 1, 3, 6, 4, 1 over sizes 3, 4, 4, 4; entry 2 of its middle bond costs 3 * 4 + 4 * 4 parameters.
  CHECK(train::importances(engine.weights(), sensitivity)[1].diagonals[1][2] == Approx(0.5 * 0.5 * 5.0 / 28));
  CHECK(train::importances(engine.weights(), sensitivity)[1].diagonals[1][5] == 0);
  const train::Kept kept = {{{0, 2}, {0, 1, 3}}, {{1}, {2, 3}, {0, 2}}};
  train::keep_of(sensitivity, kept);
  train::remove_all_but(engine, kept);
  CHECK(sensitivity == train::sensitivity_of(engine.weights(), 1));
  // A chain with an empty bond is removed together with its sensitivity.
  const train::Kept removed = {{{0}, {}}, {{0}, {0}, {0}}};
  train::keep_of(sensitivity, removed);
  train::remove_all_but(engine, removed);
  CHECK(sensitivity == train::sensitivity_of(engine.weights(), 1));
  CHECK(sensitivity.size() == 1);
}
