// For the parts of lib/core that change files: how failures are told, and the count of changes that fault injection
// goes by (file.h).
#pragma once

#include <string>

namespace comera {

// Called before every change to the file system.
void count_change();
[[noreturn]] void fail_reading(const std::string& path, int error);
[[noreturn]] void fail_writing(const std::string& path, int error);

}  // namespace comera
