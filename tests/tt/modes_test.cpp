#include "lib/tt/modes.h"

#include <catch2/catch.hpp>

#include "lib/core/error.h"

using namespace comera;
using tt::Sizes;

TEST_CASE("linear modes match the tables of CoMERA") {
  CHECK(tt::linear_modes(768, 768, 3) == Sizes{12, 8, 8, 8, 8, 12});
  CHECK(tt::linear_modes(768, 3072, 3) == Sizes{12, 8, 8, 12, 16, 16});
  CHECK(tt::linear_modes(3072, 768, 3) == Sizes{16, 16, 12, 8, 8, 12});
  CHECK(tt::linear_modes(256, 1024, 3) == Sizes{8, 8, 4, 8, 8, 16});
  CHECK(tt::linear_modes(7, 13, 1) == Sizes{7, 13});
  CHECK(tt::linear_modes(7, 13, 2) == Sizes{7, 1, 1, 13});
}

TEST_CASE("table modes cover the rows with little padding and split the columns exactly") {
  for (const std::int64_t rows : {3LL, 1000LL, 30522LL, 32000LL, 52000LL, 10131227LL}) {
    const Sizes modes = tt::table_modes(rows, 256, 4);
    const Sizes row_modes(modes.begin(), modes.begin() + 4);
    CHECK(tt::product(row_modes) >= rows);
    CHECK(static_cast<double>(tt::product(row_modes)) <= 1.05 * static_cast<double>(rows) + 13);
    CHECK(modes[4] * modes[5] * modes[6] * modes[7] == 256);
  }
}

TEST_CASE("ranks: outer bonds are limited to their mode size, too large inner bonds are errors") {
  CHECK(tt::uniform_ranks({12, 8, 8, 12, 16, 16}, 30, "w") == Sizes{1, 12, 30, 30, 30, 16, 1});
  CHECK(tt::uniform_ranks({12, 8, 8, 8, 8, 12}, 5, "w") == Sizes{1, 5, 5, 5, 5, 5, 1});
  CHECK(tt::uniform_ranks({768, 768}, 16, "w") == Sizes{1, 16, 1});
  CHECK(tt::uniform_ranks({64, 80, 80, 60}, 32, "w") == Sizes{1, 32, 32, 32, 1});
  CHECK_THROWS_WITH(tt::uniform_ranks({12, 8, 8, 8, 8, 12}, 100, "layer.0"),
                    Catch::Contains("layer.0: rank 100 exceeds the largest possible 96 at bond 2"));
  CHECK_THROWS_AS(tt::uniform_ranks({4, 6}, 5, "w"), InputError);
  CHECK_THROWS_AS(tt::uniform_ranks({4, 6}, 0, "w"), InputError);
}

TEST_CASE("core parameters match the six-encoder model of the paper") {
  const Sizes attention = tt::uniform_ranks({12, 8, 8, 8, 8, 12}, 30, "w");
  CHECK(tt::core_parameters({12, 8, 8, 8, 8, 12}, attention) == 20448);
  CHECK(tt::core_parameters({12, 8, 8, 12, 16, 16}, tt::uniform_ranks({12, 8, 8, 12, 16, 16}, 30, "w")) == 28960);
  CHECK(tt::core_parameters({64, 80, 80, 60}, {1, 32, 32, 32, 1}) == 167808);
  CHECK(tt::rank_entries(attention) == 114);
  CHECK(tt::core_parameters({4, 4}, {1, 0, 1}) == 0);
}

TEST_CASE("modes are parsed in both notations") {
  CHECK(tt::parse_modes("12x8x8|8x8x12") == Sizes{12, 8, 8, 8, 8, 12});
  CHECK(tt::parse_modes("4,6") == Sizes{4, 6});
  CHECK_THROWS_AS(tt::parse_modes("12x8x8"), InputError);
  CHECK_THROWS_AS(tt::parse_modes("12x-8"), InputError);
  CHECK_THROWS_AS(tt::parse_modes(""), InputError);
}
