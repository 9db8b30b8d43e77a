#include "lib/train/train_state.h"

#include <catch2/catch.hpp>

#include "lib/core/error.h"
#include "tests/core/cpu_seconds.h"

using namespace comera;

TEST_CASE("train state: the ranks of 100,000 chains are written and read in less than a second each") {
  train::TrainState state;
  for (int i = 0; i < 100'000; ++i) state.rank_table[fmt::format("model.layers.{}.mlp.up_proj", i)] = {1, i % 64, 1};
  const double start = cpu_seconds();
  const std::string text = state.to_json();
  const double written = cpu_seconds();
  CHECK(written - start < second());
  const train::TrainState read = train::TrainState::from_json(text, "state.json");
  CHECK(cpu_seconds() - written < second());
  CHECK(read.rank_table == state.rank_table);
}
