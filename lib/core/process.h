// Information about this process and this machine.
#pragma once

#include <string>
#include <vector>

namespace comera {

std::string cpu_name();
std::vector<std::string>
cpu_features();   // only those relevant to arithmetic: avx2, fma, avx512f, avx512_bf16, amx_bf16, ...
int cpu_count();  // processors that this process may use
std::string counted_cpus(int count);  // "1 processor", "2 processors"
std::string host_name();
std::string utc_time();  // "2025-01-31T09:05:00Z"
double wall_seconds();   // monotonic

}  // namespace comera
