// The rows of distances, as transformers' MPNetEncoder.relative_position_bucket gives them.
#include "lib/layers/relative_bias.h"

#include <catch2/catch.hpp>

using comera::layers::RelativeBias;

TEST_CASE("relative bias: distances share the rows that transformers gives them") {
  // The first distance of each row.
  constexpr std::int64_t first[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91};
  for (std::int64_t distance = 0, row = 0; distance < 600; ++distance) {
    while (row < 15 && distance >= first[row + 1]) ++row;
    CHECK(RelativeBias::row_of(-distance) == row);
    if (distance > 0) CHECK(RelativeBias::row_of(distance) == 16 + row);
  }
  CHECK(RelativeBias::row_of(1 << 20) == 31);
}
