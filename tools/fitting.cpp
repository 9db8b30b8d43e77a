#include "tools/fitting.h"

#include <algorithm>
#include <span>
#include <utility>

#include "lib/core/memory.h"
#include "lib/core/terminal/log.h"
#include "lib/data/collate.h"
#include "lib/data/corpus.h"
#include "lib/train/refactor.h"
#include "models/model_options.h"
#include "tools/step_times.h"
#include "tools/teaching.h"

namespace comera::tools {
namespace {

std::size_t reader_bytes(const RunSetup& setup, int threads) {
  if (setup.open.machine.backend->device.free_bytes || !setup.data) return 0;
  return data::tokenising_bytes(*setup.data, threads) + (setup.dev ? data::tokenising_bytes(*setup.dev, threads) : 0);
}

// --form auto begins with the ranks that the call or the preset gives.
train::RankCeiling ceiling_of(const OptionValues& values) {
  if (!values.table().find("form")) return {};
  const models::Preset& preset = models::find_preset(values.text("model"));
  return {values.has("rank") ? values.integer("rank") : preset.rank,
          models::embedding_rank(values, preset, models::common(models::sized_spec(values)))};
}

// A teacher's plans only grow, so each plan of a step has a teacher of its own. The destructor puts the run's back.
class FreshTeacher {
 public:
  FreshTeacher(const OptionValues& values, RunSetup& setup)
      : setup_(setup), factory_(setup.factory), teacher_(std::move(setup.teacher)) {
    if (teacher_) add_teacher(values, setup);
  }
  FreshTeacher(const FreshTeacher&) = delete;
  FreshTeacher& operator=(const FreshTeacher&) = delete;
  ~FreshTeacher() {
    setup_.factory = std::move(factory_);
    setup_.teacher = std::move(teacher_);
  }

 private:
  RunSetup& setup_;
  layers::ModelFactory factory_;
  std::unique_ptr<train::Teacher> teacher_;
};

}  // namespace

StepEngine plan_step(const OptionValues& values, RunSetup& setup) {
  const train::TrainOptions options = train::train_options(values);
  plan::Machine machine = setup.open.machine;
  machine.paths = nullptr;  // no path is measured, because this plan is not run
  const FreshTeacher fresh(values, setup);
  const layers::ModelFactory factory =
      setup.spec_of ? models::factory_of(setup.spec_of(values), machine.dtype) : setup.factory;
  StepEngine planned;
  planned.engine = std::make_unique<engine::Engine>(machine, factory, options.training_engine());
  engine::Engine& engine = *planned.engine;
  // The trainer refuses the same: ranks without a tensor train, a target that cannot be reached.
  const train::RankAdaptation possible(engine, options.ranks, options.optimizer.penalty);
  if (options.optimizer.refactor_every > 0) train::require_refactorable(engine.model());
  data::Batch batch =
      engine.model().planning_batch(options.batch, data::round_up_length(options.length), options.mask_probability);
  const bool dev = !values.list("dev").empty();
  if (dev && data::predicts_words(options.task)) engine.plan_evaluation(batch);
  if (setup.teacher) setup.teacher->plan(batch);
  engine.plan_training(batch);
  if (dev) engine.plan_evaluation(batch);
  planned.step.memory = engine.memory_table(options.accumulate);
  if (setup.teacher) setup.teacher->add_to(planned.step.memory, options.accumulate);
  planned.step.bytes = engine.planned_bytes() + (setup.teacher ? setup.teacher->planned_bytes() : 0) +
                       reader_bytes(setup, options.threads);
  planned.teacher = std::move(setup.teacher);
  return planned;
}

train::PlanStep step_planner(RunSetup& setup) {
  return [&setup](const OptionValues& values) { return plan_step(values, setup).step; };
}

void settle_fit(OptionValues& values, RunSetup& setup) {
  if (!values.has("fit")) return;
  if (setup.resume) return log_info("--fit: the run keeps the choice in its recipe");
  setup.fit = train::fit(values, values.size("fit"), ceiling_of(values), step_planner(setup));
  const train::MemoryChoice chosen = setup.fit->rows[setup.fit->chosen].choice;
  const auto later_form =
      std::find_if(setup.fit->rows.begin() + static_cast<std::ptrdiff_t>(setup.fit->chosen), setup.fit->rows.end(),
                   [&](const train::PlannedChoice& row) { return !row.choice.same_form(chosen); });
  // A run stays below the figure from its beginning.
  const std::size_t most = values.flag("dry-run") ? machine_memory() / 4 : setup.fit->limit;
  predict_times(std::span(setup.fit->rows.begin(), later_form), values, setup, most);
  train::apply(chosen, values);
  if (setup.settle) setup.settle(values);
  setup.options = train::train_options(values);
}

void keep_choice(OptionValues& values, const OptionValues& recipe) {
  if (!values.has("fit")) return;
  const auto whole = [](const OptionValues& of) { return of.integer("batch") * of.integer("accumulate"); };
  std::vector<const char*> names;
  if (whole(values) == whole(recipe)) names = {"batch", "accumulate"};
  if (values.table().find("form") && values.text("form") == "auto")
    names.insert(names.end(), {"form", "rank", "embedding-rank"});
  for (const char* name : names)
    if (recipe.has(name)) values.set(name, recipe.canonical(name));
}

}  // namespace comera::tools
