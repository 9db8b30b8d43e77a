// Limits of CPU time in tests of large inputs.
#pragma once

#include <algorithm>
#include <ctime>
#include <map>
#include <string>

namespace comera {

// CPU seconds, so other programs do not count.
inline double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// A second of a machine that fills a map with 200,000 names in 0.02 seconds; more on a slower machine, and in builds
// with checks of every access.
inline double second() {
#if defined(NDEBUG) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  static const double limit = [] {
    const double start = cpu_seconds();
    std::map<std::string, int> names;
    for (int i = 0; i < 200'000; ++i) names["model.layers." + std::to_string(i) + ".weight"] = i;
    return std::max(1.0, (cpu_seconds() - start) / 0.02);
  }();
  return limit;
#else
  return 20;
#endif
}

}  // namespace comera
