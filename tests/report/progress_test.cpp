#include "lib/report/run/progress.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>

#include "lib/core/files/file.h"
#include "lib/core/terminal/log.h"

using namespace comera::report;

namespace {

StepLine example() {
  return {.step = 120,
          .steps = 5000,
          .loss = 3.21,
          .learning_rate = 2.9e-4,
          .gradient_norm = 0.84,
          .rank = 14.2,
          .ratio = 43.1,
          .step_ms = 42,
          .tokens_per_second = 97000,
          .peak_bytes = 812ull << 20,
          .eta_seconds = 200};
}

}  // namespace

TEST_CASE("A report is one plain line of fixed form") {
  CHECK(to_string(example()) ==
        "step 120/5000  loss 3.21  lr 2.9e-4  gnorm 0.84  rank 14.2  ratio 43.1x  42 ms  97.0k tok/s  peak 812 MiB  "
        "eta 3m20s");
}

TEST_CASE("Unknown values are left out of the line") {
  StepLine line = example();
  line.rank.reset(), line.ratio.reset(), line.eta_seconds.reset();
  line.steps = 0;
  CHECK(to_string(line) == "step 120  loss 3.21  lr 2.9e-4  gnorm 0.84  42 ms  97.0k tok/s  peak 812 MiB");
}

TEST_CASE("The first step does not count for the remaining time") {
  Eta eta;
  eta.step_done(1, 100);  // took an unknown time
  CHECK_FALSE(eta.seconds(10).has_value());
  eta.step_done(2, 101);
  eta.step_done(3, 102);
  CHECK(eta.seconds(10).value() == Approx(7));
}

TEST_CASE("After a resume the remaining time is computed from the steps of this call") {
  Eta eta;
  eta.step_done(501, 0);
  eta.step_done(503, 4);
  CHECK(eta.seconds(1003).value() == Approx(1000));
}

TEST_CASE("On a narrow terminal a line leaves out fields, but never the step") {
  CHECK(to_string(example(), 80) == "step 120/5000  loss 3.21  rank 14.2  ratio 43.1x  42 ms  peak 812 MiB  eta 3m20s");
  for (const int columns : {20, 40, 60, 80, 200})
    CHECK(to_string(example(), columns).size() <= static_cast<std::size_t>(columns));
  CHECK(to_string(example(), 1) == "step 120/5000");
}

TEST_CASE("Memory that is not measured yet is left out") {
  StepLine line = example();
  line.peak_bytes = 0;
  CHECK(to_string(line).find("peak") == std::string::npos);
  CHECK(live_note(line) == "loss 3.21  42 ms  ratio 43.1x  rank 14.2  97.0k tok/s");
  CHECK(live_note(example()) == "loss 3.21  42 ms  ratio 43.1x  rank 14.2  97.0k tok/s  peak 812 MiB");
}

TEST_CASE("A report sets the task of a run to the last step, whatever was drawn before") {
  const auto now = [] { return comera::tasks_at_hand(); };
  comera::set_up_log({.level = comera::LogLevel::error});
  {
    Progress progress;
    StepLine line = example();
    line.steps = 80, line.step = 79;
    progress.step(line, false);
    REQUIRE(now().size() == 1);
    CHECK(now()[0].done == 79);
    line.step = 80;  // less than a tenth of a second later
    progress.step(line, true);
    CHECK(now()[0].done == 80);
    CHECK(now()[0].of == 80);
  }
  CHECK(now().empty());
  comera::set_up_log({});
}

TEST_CASE("The task of a run begins before its first step") {
  Progress progress;
  progress.begin(3, 80);
  REQUIRE(comera::tasks_at_hand().size() == 1);
  CHECK(comera::tasks_at_hand()[0].done == 3);
  CHECK(comera::tasks_at_hand()[0].of == 80);
}

TEST_CASE("Without a terminal there is a plain line per report and nothing else") {
  char path[] = "/tmp/progress-XXXXXX";
  const int descriptor = mkstemp(path);
  REQUIRE(descriptor >= 0);
  ::close(descriptor);
  comera::set_up_log({.level = comera::LogLevel::error, .file = path});
  {
    Progress progress;
    progress.step(example(), false);
    progress.step(example(), true);
    StepLine by_the_clock = example();
    by_the_clock.steps = 1'000'000, by_the_clock.seconds_left = 30;
    progress.step(by_the_clock, true);
  }
  comera::set_up_log({});
  StepLine line = example();
  line.eta_seconds.reset();  // a single step gives no estimate
  const std::string first = to_string(line) + "\n";
  line.steps = 1'000'000, line.eta_seconds = 30;
  CHECK(comera::read_file(path) == first + to_string(line) + "\n");
  std::remove(path);
}
