#include "lib/compress/calibration/targets.h"

#include <catch2/catch.hpp>

#include "tests/core/temporary_folder.h"

using namespace comera;
using namespace comera::compress;

namespace {

Collector::Seen seen(std::int64_t rows, float first) {
  Collector::Seen one;
  one.given = tt::FloatMatrix(rows, 3), one.residual = tt::FloatMatrix(rows, 3);
  for (float& value : one.given.values) value = first++;
  for (float& value : one.residual.values) value = first++;
  return one;
}

}  // namespace

TEST_CASE("targets: every layer and batch gives what it kept, until they are cleared") {
  const TemporaryFolder folder;
  ScratchFile scratch(folder.path());
  Targets targets(scratch);
  for (int round = 0; round < 3; ++round) {
    for (const std::int64_t rows : {4, 0, 7}) {
      targets.keep("up", static_cast<std::size_t>(rows), seen(rows, static_cast<float>(100 * rows + round)));
      targets.keep("down", static_cast<std::size_t>(rows), seen(rows, static_cast<float>(-50 * rows + round)));
    }
    Collector::Seen found;
    for (const std::int64_t rows : {7, 4, 0})
      for (const auto& [layer, first] : {std::pair("up", 100 * rows + round), std::pair("down", -50 * rows + round)}) {
        REQUIRE(targets.give(layer, static_cast<std::size_t>(rows), found));
        const Collector::Seen wanted = seen(rows, static_cast<float>(first));
        CHECK(found.given.rows == rows);
        CHECK(found.residual.columns == 3);
        CHECK(found.given.values == wanted.given.values);
        CHECK(found.residual.values == wanted.residual.values);
      }
    CHECK_FALSE(targets.give("up", 1, found));
    CHECK_FALSE(targets.give("query", 4, found));
    targets.clear();
    CHECK_FALSE(targets.give("up", 4, found));
  }
  // A round reuses the places of the one before.
  CHECK(scratch.reserve(1) == 2 * 2 * sizeof(float) * 3 * (4 + 0 + 7));
}
