// Protects inputs: an output that equals, contains or lies inside an input is refused before anything is read or
// written.
#pragma once

#include <string>
#include <vector>

#include "lib/core/options/options.h"

namespace comera {

struct NamedPath {
  std::string name, path;  // "--output"
};

// Resolves links and compares files by device and inode, not by name. Skips paths that are neither file nor folder.
// InputError that starts with `[verb]`, also if two outputs are the same file, or if one lies in a folder that another
// process has locked.
void check_outputs(const std::string& verb, const std::vector<NamedPath>& inputs,
                   const std::vector<NamedPath>& outputs);

// Files that the options and positionals of a call name (Option::files), and stdin if it is a file.
struct NamedFiles {
  std::vector<NamedPath> inputs, outputs;
};
NamedFiles named_files(const OptionValues& values);
void check_outputs(const OptionValues& values);

}  // namespace comera
