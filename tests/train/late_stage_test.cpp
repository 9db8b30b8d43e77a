#include "lib/train/late_stage.h"

#include <catch2/catch.hpp>

using namespace comera;
using train::LateStage;

namespace {

train::TrainOptions with_target() {
  train::TrainOptions options;
  options.ranks.target = train::TargetKind::ratio;
  options.ranks.target_value = 3;
  return options;
}

std::vector<std::int64_t> numbers(const LateStage::Steps& steps) { return {steps.start, steps.deadline}; }

}  // namespace

TEST_CASE("late stage: the last third of the steps, the target in its middle") {
  train::TrainOptions options = with_target();
  CHECK(numbers(LateStage(options, 300, 50).known()) == std::vector<std::int64_t>{200, 250});
  options.late_after = Period{Period::Unit::epochs, 2};
  CHECK(numbers(LateStage(options, 300, 50).known()) == std::vector<std::int64_t>{100, 200});
  CHECK_FALSE(LateStage(options, 300, 50).begun(299, 1e6));
  options.late_after = Period{Period::Unit::steps, 300};
  CHECK_THROWS_WITH(LateStage(options, 300, 50), Catch::Contains("but the run has 300"));
  options.ranks.target = train::TargetKind::none;
  CHECK(numbers(LateStage(options, 300, 50).known()) == std::vector<std::int64_t>{-1, -1});
}

TEST_CASE("late stage: after a time, the steps that are left are estimated from those before") {
  train::TrainOptions options = with_target();
  options.max_seconds = 90;
  const LateStage third(options, 0, 50);
  CHECK(numbers(third.known()) == std::vector<std::int64_t>{-1, -1});
  CHECK_FALSE(third.begun(600, 59));
  CHECK_FALSE(third.begun(19, 60));  // the time of a step is not known yet
  CHECK(numbers(third.begun(600, 60).value()) == std::vector<std::int64_t>{600, 750});  // 300 steps are left
  CHECK(numbers(third.begun(600, 100).value()) == std::vector<std::int64_t>{600, 600});

  options.late_after = Period{Period::Unit::seconds, 30};
  CHECK(numbers(LateStage(options, 0, 50).begun(100, 30).value()) == std::vector<std::int64_t>{100, 200});
  CHECK(numbers(LateStage(options, 160, 50).begun(100, 30).value()) == std::vector<std::int64_t>{100, 130});
  options.max_seconds = 0;
  CHECK(numbers(LateStage(options, 160, 50).begun(100, 30).value()) == std::vector<std::int64_t>{100, 130});
}
