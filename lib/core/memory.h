// The memory that this process takes, and that it may still take.
#pragma once

#include <cstdint>
#include <string>

namespace comera {

std::uint64_t peak_memory();     // largest number of resident bytes so far (VmHWM)
std::uint64_t current_memory();  // resident bytes now (VmRSS)
void reset_peak_memory();        // sets the peak to the current value, if the kernel allows it

// From this call on, freed large blocks return to the system at once, so that memory for reading a file does not count
// as memory of a run. Every large block is then a new mapping, so do not use this for work that allocates in inner
// loops.
void return_freed_memory();
// Returns the pages of freed blocks to the system now, in the heaps of all threads. Takes some milliseconds.
void trim_freed_memory();

std::uint64_t machine_memory();  // bytes

struct FreeMemory {
  std::uint64_t free = 0, total = 0;  // bytes; 0: unknown
};

// The free memory of the machine with its swap space, or what the control groups of this process leave (version 1 or
// 2), whichever is less. Pages of files count as free. `root` replaces "/" in tests.
FreeMemory free_memory(const std::string& root = "/");

}  // namespace comera
