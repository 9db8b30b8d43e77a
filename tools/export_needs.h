// The disk space and the memory that an export takes. A small folder of chains can claim a dense model of any size.
#pragma once

#include "lib/export/settings.h"
#include "lib/export/target.h"
#include "lib/io/model_folder.h"
#include "tools/program.h"

namespace comera::tools {

// Memory to multiply out the largest chain of the folder: its numbers in fp32, in both orders.
double memory_of_largest(const io::ModelFolder& folder);

// The least bytes that the chains of the folder take in a graph of factors, or with numbers on grids.
std::uint64_t least_bytes(const io::ModelFolder& folder, exporting::GraphForm form);

struct ExportNeeds {
  std::uint64_t bytes = 0;  // of the output
  double memory = 0;
  bool least = false;  // the output may be larger: its size is known when it is built, which --dry-run does too
};
// Tells the size of the output before it is written. RunError if the disk has less free space or this process may take
// less memory; a warning if --dry-run builds nothing.
void settle_needs(const OptionValues& values, const exporting::Target& target, const ExportNeeds& needs);

}  // namespace comera::tools
