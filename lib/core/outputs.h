// Outputs that harm no input: an output that is an input, holds one or lies in one is refused before anything is read
// or written.
#pragma once

#include <string>
#include <vector>

#include "lib/core/options.h"

namespace comera {

struct NamedPath {
  std::string name, path;  // "--output"
};

// Links are resolved, and files told by what they are, not by their names; what is neither file nor folder is not
// looked at. InputError that opens with `[verb]`; also where two outputs are one.
void check_outputs(const std::string& verb, const std::vector<NamedPath>& inputs,
                   const std::vector<NamedPath>& outputs);

// Files that the options and positionals of a call name (Option::files), and stdin if it is a file.
struct NamedFiles {
  std::vector<NamedPath> inputs, outputs;
};
NamedFiles named_files(const OptionValues& values);
void check_outputs(const OptionValues& values);

}  // namespace comera
