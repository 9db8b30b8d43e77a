// Limits of CPU time in tests of large inputs.
#pragma once

#include <ctime>

namespace comera {

// CPU seconds, so other programs do not count.
inline double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// Builds with checks of every access get a larger limit.
#if defined(NDEBUG) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
constexpr double second = 1;
#else
constexpr double second = 20;
#endif

}  // namespace comera
