#include "lib/train/importance.h"

#include <catch2/catch.hpp>

#include "lib/engine/engine.h"
#include "lib/train/optimizer.h"
#include "tests/engine/toy_model.h"

using namespace comera;

namespace {

engine::Engine falling_engine() {
  return {
      {&kernels::reference_backend(), DType::f64, nullptr}, toy::factory(DType::f64), {.update = train::optimizer()}};
}

void set_diagonals(engine::Engine& engine) {
  engine.allocate();
  engine.weights().initialise(4);
  for (const layers::ChainParameters& chain : engine.model().chains())
    for (const layers::Parameter* diagonal : chain.diagonals)
      for (std::int64_t i = 0; i < diagonal->shape.elements(); ++i)
        layers::store(diagonal->value, i, 1.0 - 0.25 * static_cast<double>(i));
}

}  // namespace

TEST_CASE("the importance of a rank entry is its square without gradients") {
  engine::Engine engine = falling_engine();
  set_diagonals(engine);
  for (const bool by_gradients : {false, true}) {  // the moments are 0
    const std::vector<train::ChainDiagonals> chains = train::importances(engine.weights(), by_gradients);
    CHECK(chains[1].diagonals[1][2] == Approx(0.5 * 0.5));
    CHECK(chains[1].diagonals[1][5] == 0);  // -.25
  }
}

TEST_CASE("the importance of a rank entry is its square times the second moment of its gradient") {
  engine::Engine engine = falling_engine();
  set_diagonals(engine);
  const layers::Parameter& diagonal = *engine.model().chains()[1].diagonals[1];
  const plan::Tensor moments = engine.weights().state(1, diagonal.index);
  for (std::int64_t i = 0; i < 6; ++i) layers::store(moments, i, 1e-9 * static_cast<double>(i + 1));
  const std::vector<train::ChainDiagonals> chains = train::importances(engine.weights(), true);
  CHECK(chains[1].diagonals[1][2] == Approx(0.25 * 3e-9));
  CHECK(chains[1].diagonals[1][5] == 0);
  CHECK(chains[1].diagonals[0][0] == 0);  // no gradient was seen
  CHECK(train::importances(engine.weights(), false)[1].diagonals[1][2] == Approx(0.25));
}
