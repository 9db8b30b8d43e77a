#include "lib/layers/training/weight_form.h"

#include <catch2/catch.hpp>

using namespace comera;
using namespace comera::layers;

TEST_CASE("a chain's form starts with its ranks") {
  const WeightForm form = chain_form(tt::tt_layout({4}, {6}, {1, 3, 1}), true);
  CHECK(form.storage == Storage::chain);
  CHECK(form.initial_ranks == tt::Sizes{1, 3, 1});
  CHECK(form.folded);
  CHECK_FALSE(form.dense());
  CHECK(WeightForm{}.dense());
}

TEST_CASE("a grid's form holds the chain that corrects it") {
  const WeightForm form = grid_form(kernels::Grid::q3_0, tt::tt_layout({4}, {6}, {1, 3, 1}));
  CHECK(form.storage == Storage::grid);
  CHECK(form.grid == kernels::Grid::q3_0);
  CHECK(form.folded);
  CHECK_FALSE(form.layout.empty());
  CHECK_FALSE(form.dense());
}
