// --fit and --explain: plans of a run under other settings.
#pragma once

#include "tools/run_setup.h"

namespace comera::tools {

// A planned step and the engine and teacher that planned it, without memory.
struct StepEngine {
  std::unique_ptr<train::Teacher> teacher;  // may be null
  std::unique_ptr<engine::Engine> engine;
  train::PlannedStep step;
};
// Plans a step of the run with these options, as the trainer does. The setup needs machine and factory or spec_of, and
// is as before afterwards.
StepEngine plan_step(const OptionValues& values, RunSetup& setup);
train::PlanStep step_planner(RunSetup& setup);

// --fit: sets the chosen options in `values` and setup.options. A resumed run keeps the choice of its recipe.
void settle_fit(OptionValues& values, RunSetup& setup);

// Before a resume with --fit: options that --fit may have set take the values of the recipe, if they learn the same.
void keep_choice(OptionValues& values, const OptionValues& recipe);

}  // namespace comera::tools
