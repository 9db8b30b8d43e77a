#include "lib/train/step_rates.h"

#include <catch2/catch.hpp>

#include "tests/engine/toy_model.h"

using namespace comera;

namespace {

engine::UpdateStep step_of(const train::TrainOptions& options, std::int64_t done) {
  const plan::Machine machine{&kernels::reference_backend(), DType::f64, nullptr};
  engine::Engine engine(machine, toy::factory(DType::f64), {.update = train::optimizer(options.optimizer)});
  return train::update_step(options, train::RankAdaptation(engine, options.ranks), done);
}

train::TrainOptions options_of_rates() {
  train::TrainOptions options;
  options.rate = 1, options.rate_cores = 2, options.rate_ranks = 3, options.rate_tables = 4;
  options.schedule = {.shape = train::ScheduleShape::constant, .warmup = 4, .steps = 100};
  options.ranks.adapt = false;
  return options;
}

}  // namespace

TEST_CASE("step rates: every role has its rate by the schedule, and cores of tables that of cores or their own") {
  train::TrainOptions options = options_of_rates();
  for (const std::int64_t done : {0, 50}) {
    const double factor = options.schedule.factor(done);
    const engine::UpdateStep step = step_of(options, done);
    CHECK(step.step == done);
    CHECK(step.rates[static_cast<int>(layers::Role::other)] == factor);
    CHECK(step.rates[static_cast<int>(layers::Role::core)] == 2 * factor);
    CHECK(step.rates[static_cast<int>(layers::Role::diagonal)] == 3 * factor);
    CHECK(step.rates[static_cast<int>(layers::Role::table)] == 4 * factor);
    CHECK(step.rate_table_cores == 2 * factor);
  }
  options.rate_cores = 0, options.rate_table_cores = 5;
  CHECK(step_of(options, 50).rate_table_cores == 5);
}

TEST_CASE("step rates: moments of factors begin with each new factorisation") {
  train::TrainOptions options = options_of_rates();
  const auto begun = [&](std::int64_t done, layers::Role role) {
    return step_of(options, done).begun[static_cast<int>(role)];
  };
  CHECK(begun(45, layers::Role::core) == 0);
  options.optimizer.refactor_every = 20;
  CHECK(begun(19, layers::Role::core) == 0);
  CHECK(begun(20, layers::Role::core) == 20);
  CHECK(begun(45, layers::Role::diagonal) == 40);
  CHECK(begun(45, layers::Role::other) == 0);
}
