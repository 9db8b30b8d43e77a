// A training run from its setup to its report, whatever the verb.
#pragma once

#include "tools/run_setup.h"

namespace comera::tools {

// --dry-run: sizes, memory and FLOPs of a step; nothing is written.
// The setup needs spec, factory, machine, options and, where there is one, the teacher.
int plan_run(const OptionValues& values, const RunSetup& setup);

// Trains, reports, and gives the exit code.
int train_and_report(const OptionValues& values, const RunSetup& setup);

}  // namespace comera::tools
