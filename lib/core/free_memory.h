// The memory that this process may still take.
#pragma once

#include <cstdint>
#include <string>

namespace comera {

struct FreeMemory {
  std::uint64_t free = 0, total = 0;  // bytes; 0: unknown
};

// The free memory of the machine with its swap space, or what the control groups of this process leave (version 1 or
// 2), whichever is less. Pages of files count as free. `root` replaces "/" in tests.
FreeMemory free_memory(const std::string& root = "/");

}  // namespace comera
