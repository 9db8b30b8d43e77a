// Facts about this process and this machine, and the signals that stop the process.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace comera {

std::uint64_t peak_memory();     // bytes resident at most so far (VmHWM)
std::uint64_t current_memory();  // bytes resident now (VmRSS)
void reset_peak_memory();        // the peak starts again from what is resident now, where the kernel allows it

// From here on large blocks go back to the system when they are freed, so that what a file's reading took is not
// counted as a run's memory. Every large block is then new memory: not for work that allocates in its inner loops.
void return_freed_memory();

std::string cpu_name();
std::vector<std::string>
cpu_features();                  // of those that matter to arithmetic: avx2, fma, avx512f, avx512_bf16, amx_bf16, ...
int cpu_count();                 // processors that this process may use
std::uint64_t machine_memory();  // bytes
std::string host_name();
std::string utc_time();  // "2025-01-31T09:05:00Z"
double wall_seconds();   // monotonic

}  // namespace comera
