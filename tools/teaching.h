// --teacher: a dense model whose answers a smaller model learns.
#pragma once

#include "tools/run_setup.h"

namespace comera::tools {

std::vector<Option>
teaching_options();  // --teacher, --distill, --distill-distance, --distill-temperature, --distill-weight

// InputError for a call that would learn nothing: without labels and without a teacher whose loss counts; and for one
// that asks for labels and for none.
void require_something_to_learn(const OptionValues& values);

// Opens the teacher of the options, if any. The setup needs spec, data, machine and factory. Throws an InputError if
// vocabulary, width or labels of teacher and student differ.
void add_teacher(const OptionValues& values, RunSetup& setup);

}  // namespace comera::tools
