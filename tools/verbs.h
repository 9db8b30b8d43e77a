// The verbs, one file each.
#pragma once

#include "tools/program.h"

namespace comera::tools {

OptionTable version_table();
int run_version(const OptionValues& values);
OptionTable completion_table();
int run_completion(const OptionValues& values);

}  // namespace comera::tools
