// Resolves paths and globs to data files, and computes their hash.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/core/terminal/task_progress.h"
#include "lib/data/files/line_reader.h"

namespace comera::data {

// Returns the files in the given order, those of each glob sorted. An input error names a pattern without a match, a
// folder, or a file that cannot be read.
std::vector<std::string> resolve_files(const std::vector<std::string>& patterns);

// 32 hexadecimal digits over the sizes and all stored bytes (not unpacked), so that any change is detected before
// training uses the data.
std::string hash_files(const std::vector<std::string>& files);

// Bytes of the text in a file; 0 if unknown, because it is packed or no file.
std::int64_t text_bytes(const std::string& path);

// Reports the reading of a file as a task that a signal can stop.
class Reading {
 public:
  explicit Reading(const std::string& path);
  void at(const LineReader& lines);  // call after each line; throws Stopped

 private:
  TaskProgress task_;
};

}  // namespace comera::data
