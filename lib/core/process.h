// Information about this process and this machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

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

std::string cpu_name();
std::vector<std::string>
cpu_features();                  // only those relevant to arithmetic: avx2, fma, avx512f, avx512_bf16, amx_bf16, ...
int cpu_count();                 // processors that this process may use
std::uint64_t machine_memory();  // bytes
std::string host_name();
std::string utc_time();  // "2025-01-31T09:05:00Z"
double wall_seconds();   // monotonic

}  // namespace comera
