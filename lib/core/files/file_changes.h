// For the parts of lib/core that change files: error reports, and the counter of changes for fault injection (file.h).
#pragma once

#include <string>

namespace comera {

// Must be called before every change to the file system.
void count_change();
[[noreturn]] void fail_reading(const std::string& path, int error);
[[noreturn]] void fail_writing(const std::string& path, int error);

}  // namespace comera
