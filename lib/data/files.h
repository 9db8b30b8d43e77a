// The data files that paths and globs name, and what tells them from others.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/core/task_progress.h"
#include "lib/data/line_reader.h"

namespace comera::data {

// In the order given, each glob's files sorted. An input error names what matches nothing, a folder, and a file that
// cannot be read.
std::vector<std::string> resolve_files(const std::vector<std::string>& patterns);

// 32 hexadecimal digits over sizes and all stored bytes (not unpacked), so that a change anywhere is noticed before it
// is learned.
std::string hash_files(const std::vector<std::string>& files);

// Bytes of the text of a file; 0 where they are not known: it is packed, or is no file.
std::int64_t text_bytes(const std::string& path);

// The reading of a file as a task that a signal stops.
class Reading {
 public:
  explicit Reading(const std::string& path);
  void at(const LineReader& lines);  // after each line; throws Stopped

 private:
  TaskProgress task_;
};

}  // namespace comera::data
