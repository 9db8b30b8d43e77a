#include "lib/report/progress.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>

#include "lib/core/file.h"
#include "lib/core/log.h"

using namespace comera::report;
using Catch::Matchers::Contains;

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
        "step 120/5000  loss 3.21  lr 2.9e-4  gnorm 0.84  rank 14.2  ratio 43.1x  42 ms  97.0k tok/s  peak 812 MiB  eta 3m20s");
}

TEST_CASE("What is not known is left out of the line") {
  StepLine line = example();
  line.rank.reset(), line.ratio.reset(), line.eta_seconds.reset();
  line.steps = 0;
  CHECK(to_string(line) == "step 120  loss 3.21  lr 2.9e-4  gnorm 0.84  42 ms  97.0k tok/s  peak 812 MiB");
}

TEST_CASE("The first step does not count for the time that is left") {
  Eta eta;
  eta.step_done(1, 100);  // took long, nobody knows
  CHECK_FALSE(eta.seconds(10).has_value());
  eta.step_done(2, 101);
  eta.step_done(3, 102);
  CHECK(eta.seconds(10).value() == Approx(7));
}

TEST_CASE("After a resume the time that is left follows from the steps of this call") {
  Eta eta;
  eta.step_done(501, 0);
  eta.step_done(503, 4);
  CHECK(eta.seconds(1003).value() == Approx(1000));
}

TEST_CASE("The bar never grows over the line of the terminal") {
  CHECK_THAT(bar(example(), 80), Contains("[....................] 120/5000  eta 3m20s  loss 3.21  42 ms  ratio 43.1x"));
  for (const int columns : {1, 20, 40, 80, 200}) CHECK(bar(example(), columns).size() <= static_cast<std::size_t>(columns > 1 ? columns - 1 : 1));
  StepLine line = example();
  line.step = 2500;
  CHECK_THAT(bar(line, 120), Contains("[##########..........]"));
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
  line.eta_seconds.reset();  // one step alone tells nothing
  const std::string first = to_string(line) + "\n";
  line.steps = 1'000'000, line.eta_seconds = 30;
  CHECK(comera::read_file(path) == first + to_string(line) + "\n");
  std::remove(path);
}
