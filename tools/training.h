// Runs a training from its setup to its report, for all training verbs.
#pragma once

#include "tools/run_setup.h"

namespace comera::tools {

// The last options of a training verb: run, machine, precision, output. Also names the tables of a recipe that hold no
// options.
void add_run_options(OptionTable& table);

// Adds --core-rates behind --lr-cores. `factor`: what the rate of a core follows from, and what for.
void add_core_rates(std::vector<Option>& rows, const std::string& factor);

// --dry-run: prints sizes, memory and FLOPs of a step and writes nothing; --explain adds the rest. The setup needs
// spec, factory, machine, options and, if there is one, the teacher.
int plan_run(const OptionValues& values, RunSetup& setup);

// Trains, writes the report, and returns the exit code.
int train_and_report(const OptionValues& values, RunSetup setup);

}  // namespace comera::tools
