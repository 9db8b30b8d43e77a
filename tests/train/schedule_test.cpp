#include "lib/train/schedule.h"

#include <catch2/catch.hpp>

using comera::train::Schedule;
using comera::train::ScheduleShape;

TEST_CASE("learning rates rise to the peak and fall to the end") {
  const Schedule linear{ScheduleShape::linear, 10, 110, 0};
  CHECK(linear.factor(0) == Approx(0.1));
  CHECK(linear.factor(9) == Approx(1));
  CHECK(linear.factor(10) == Approx(1));
  CHECK(linear.factor(60) == Approx(0.5));
  CHECK(linear.factor(109) == Approx(0.01));
  CHECK(linear.factor(500) == 0);
  const Schedule cosine{ScheduleShape::cosine, 0, 100, 0.1};
  CHECK(cosine.factor(0) == Approx(1));
  CHECK(cosine.factor(50) == Approx(0.55));
  CHECK(cosine.factor(100) == Approx(0.1));
  const Schedule constant{ScheduleShape::constant, 4, 0, 0};
  CHECK(constant.factor(1) == Approx(0.5));
  CHECK(constant.factor(1000000) == 1);
}

TEST_CASE("a warm-up that lasts as long as the run is told") {
  using enum ScheduleShape;
  for (const auto& [schedule, told] : {std::pair{Schedule{linear, 10, 4}, true},
                                       {{linear, 10, 10}, true},
                                       {{constant, 10, 4}, true},
                                       {{linear, 10, 11}, false},
                                       {{linear, 1, 1}, false},
                                       {{linear, 0, 4}, false},
                                       {{constant, 100, 0}, false}})
    CHECK(schedule.only_rises() == told);
}

TEST_CASE("the default warm-up is a twentieth of the steps") {
  CHECK(comera::train::default_warmup(1000) == 50);
  CHECK(comera::train::default_warmup(10) == 1);
  CHECK(comera::train::default_warmup(0) == 100);
}
