// Computes axis ticks and reduces long series for charts.
#pragma once

#include <vector>

#include "lib/report/output/svg.h"

namespace comera::report {

struct Range {
  double low = 0, high = 1;
};

// Returns about `count` round numbers (1, 2 or 5 times a power of ten) that cover the range. On a log scale: powers of
// ten, or the round numbers between them for a short range.
std::vector<double> ticks(Range range, int count);
// Extends the range to ticks at both ends, so that every value lies between two labels.
Range on_ticks(Range range, int count);
std::vector<double> log_ticks(Range range, int count);

// Returns at most `points` points: means over equal stretches of the series. A step series keeps its corners instead.
Series thinned(const Series& series, std::size_t points);

}  // namespace comera::report
