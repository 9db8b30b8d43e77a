#include "lib/tt/layout.h"

#include <catch2/catch.hpp>
#include <string>

using namespace comera::tt;

namespace {

std::string form(const Sizes& first, const Sizes& second, Kind kind) {
  return form_name(kind == Kind::tt ? tt_layout(first, second, {}) : ttm_layout(first, second, {}));
}

}  // namespace

TEST_CASE("layout: a pair of factors is lowrank for linear layers and tables") {
  CHECK(form({384}, {1536}, Kind::tt) == "lowrank");
  CHECK(form({16, 24}, {384}, Kind::tt) == "tt");
  CHECK(form({30522, 1}, {1, 384}, Kind::ttm) == "lowrank");
  CHECK(form({175, 175}, {16, 24}, Kind::ttm) == "ttm");
  CHECK(form({30522}, {384}, Kind::ttm) == "ttm");
}

TEST_CASE("layout: sizes of a tt with an order and an identity block") {
  Layout layout = tt_layout({3, 2, 2}, {5}, {1, 2, 4, 3, 1});
  CHECK(layout.entry_sizes() == Sizes{3, 2, 2, 5});
  layout.gauge = true;
  CHECK(layout.cores() == 4);
  CHECK(layout.inputs() == 3);
  CHECK(layout.middle() == 3);
  CHECK((layout.rows() == 12 && layout.columns() == 5));
  CHECK(layout.entry_sizes() == Sizes{3, 2, 2, 2});
  CHECK(layout.core_shape(1) == Sizes{2, 2, 4});
  CHECK(layout.core_shape(3) == Sizes{3, 2, 1});
  CHECK_FALSE(layout.empty());
  layout.ranks[2] = 0;
  CHECK(layout.empty());
}

TEST_CASE("layout: sizes of a ttm, and half of the modes as inputs where their number is not given") {
  Layout layout = ttm_layout({4, 2, 5}, {3, 2, 7}, {1, 3, 6, 1});
  CHECK((layout.cores() == 3 && layout.inputs() == 3));
  CHECK(layout.middle() == 2);
  CHECK(layout.entry_sizes() == Sizes{12, 4, 35});
  CHECK(layout.core_shape(1) == Sizes{3, 2, 2, 6});
  CHECK((layout.rows() == 40 && layout.columns() == 42));
  layout.in_count = 0;
  CHECK(layout.in_modes() == Sizes{4, 2, 5});
  CHECK(layout.out_modes() == Sizes{3, 2, 7});
}
