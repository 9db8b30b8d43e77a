// --teacher: a dense model whose answers a smaller model learns.
#pragma once

#include "tools/run_setup.h"

namespace comera::tools {

std::vector<Option>
teaching_options();  // --teacher, --distill, --distill-distance, --distill-temperature, --distill-weight

// Opens the teacher of the options, if any. The setup needs spec, data, machine and factory. Throws an InputError if
// vocabulary, width or labels of teacher and student differ.
void add_teacher(const OptionValues& values, RunSetup& setup);

}  // namespace comera::tools
