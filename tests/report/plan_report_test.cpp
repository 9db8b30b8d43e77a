#include "lib/report/run/plan_report.h"

#include <catch2/catch.hpp>

#include "lib/engine/engine.h"
#include "lib/train/optimizer.h"
#include "models/model_options.h"

using namespace comera;
using namespace comera::report;

namespace {

const plan::Machine& machine() {
  static const plan::Machine reference{&kernels::reference_backend(), DType::f32, nullptr};
  return reference;
}

models::ModelSpec spec(const char* form) {
  OptionTable table("test", "sizes of a preset");
  table.add(models::model_options());
  OptionValues values(table);
  values.set("model", "mnli-6enc");
  values.set("form", form);
  return models::spec_from_options(values, {});
}

}  // namespace

TEST_CASE("The six-encoder transformer has the paper's sizes, dense and in TT form") {
  const auto dense = report_of(*models::factory_of(spec("dense"), DType::f32)({}), "mnli-6enc");
  CHECK(dense.totals.parameters == 66957315);
  CHECK(dense.totals.parameters_dense == 66957315);
  CHECK(dense.totals.ratio() == 1);
  const auto tt = report_of(*models::factory_of(spec("tt"), DType::f32)({}), "mnli-6enc");
  CHECK(tt.totals.parameters == 1485795);
  CHECK(tt.totals.parameters_dense == 66957315);
  CHECK(tt.totals.rank_entries == 4362);
  CHECK(tt.totals.bytes == 4 * (1485795 + 4362));
  CHECK(tt.totals.bytes_dense == 4u * 66957315);
}

TEST_CASE("The memory of a plan adds up to its peak and is the same in JSON") {
  engine::Engine engine(machine(), models::factory_of(spec("tt"), DType::f32), {.update = train::optimizer()});
  engine.plan_training(engine.model().planning_batch(2, 16, 0.15));
  const RunPlan plan{report_of(engine.model(), "mnli-6enc"), engine.memory_table(), 32};
  const Json json = to_json(plan);
  std::uint64_t sum = 0;
  for (const char* kind : {"weights", "gradients", "optimizer", "saved", "scratch"})
    sum += json["memory"][kind].get<std::uint64_t>();
  CHECK(sum == json["memory"]["peak"].get<std::uint64_t>());
  CHECK(json["memory"]["weights"].get<std::uint64_t>() >= 4 * 1485795);
  CHECK(json["memory"]["optimizer"].get<std::uint64_t>() >= 8 * 1485795);
  CHECK(json["totals"]["parameters"] == 1485795);
  CHECK(json["flops_per_step"].get<double>() > 1e9);
  CHECK(json["schema_version"] == 1);
}
