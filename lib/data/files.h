// The data files that paths and globs name, and what tells them from others.
#pragma once

#include <string>
#include <vector>

namespace comera::data {

// In the order given, each glob's files sorted. An input error names what matches nothing, a folder, and a file that cannot be read.
std::vector<std::string> resolve_files(const std::vector<std::string>& patterns);

// 32 hexadecimal digits over sizes and all stored bytes (not unpacked), so that a change anywhere is noticed before it is learned.
std::string hash_files(const std::vector<std::string>& files);

}  // namespace comera::data
