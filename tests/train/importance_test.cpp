#include "lib/train/importance.h"

#include <catch2/catch.hpp>

#include "lib/engine/engine.h"
#include "tests/engine/toy_model.h"

using namespace comera;

TEST_CASE("the importance of a rank entry is its square per parameter") {
  engine::Engine engine({&kernels::reference_backend(), DType::f64, nullptr}, toy::factory(DType::f64), {});
  engine.allocate();
  engine.weights().initialise(4);
  for (const layers::ChainParameters& chain : engine.model().chains())
    for (const layers::Parameter* diagonal : chain.diagonals)
      for (std::int64_t i = 0; i < diagonal->shape.elements(); ++i)
        layers::store(diagonal->value, i, 1.0 - 0.25 * static_cast<double>(i));
  // "up": ranks 1, 3, 6, 4, 1 over sizes 3, 4, 4, 4; entry 2 of its middle bond costs 3 * 4 + 4 * 4 parameters.
  const std::vector<train::ChainDiagonals> chains = train::importances(engine.weights());
  CHECK(chains[1].diagonals[1][2] == Approx(0.5 * 0.5 / 28));
  CHECK(chains[1].diagonals[1][5] == 0);  // -.25
}
