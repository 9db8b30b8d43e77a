#include "lib/layers/training/weight_form.h"

#include <catch2/catch.hpp>

#include "lib/core/error.h"

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

TEST_CASE("quantised weights are refused by name") {
  WeightForm form = chain_form(tt::tt_layout({4}, {6}, {1, 3, 1}));
  require_supported(form, "encoder.query");
  require_supported({}, "encoder.query");
  for (const Storage storage : {Storage::quantised, Storage::quantised_chain}) {
    form.storage = storage;
    CHECK_THROWS_WITH(require_supported(form, "encoder.query"),
                      Catch::Contains("encoder.query") && Catch::Contains("quantised"));
    CHECK_THROWS_AS(require_supported(form, "encoder.query"), InputError);
  }
}
