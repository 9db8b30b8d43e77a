// --teacher: a dense model that tells a smaller one what to answer.
#pragma once

#include "tools/run_setup.h"

namespace comera::tools {

std::vector<Option>
teaching_options();  // --teacher, --distill, --distill-distance, --distill-temperature, --distill-weight

// Opens the teacher of the options, if there is one, into a setup that has spec, data, machine and factory. InputError
// where it does not fit the student: another vocabulary, another width, other labels.
void add_teacher(const OptionValues& values, RunSetup& setup);

}  // namespace comera::tools
