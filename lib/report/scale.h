// Axes and long series made fit to be drawn.
#pragma once

#include <vector>

#include "lib/report/svg.h"

namespace comera::report {

struct Range {
  double low = 0, high = 1;
};

// About `count` round numbers (1, 2 or 5 times a power of ten) that cover the range; for a log scale powers of ten, or
// the round numbers between them where the range is short.
std::vector<double> ticks(Range range, int count);
// The range with both ends on ticks, so that every value lies between two labels.
Range on_ticks(Range range, int count);
std::vector<double> log_ticks(Range range, int count);

// At most `points` points: means over equal stretches of the series (a step series keeps its corners instead).
Series thinned(const Series& series, std::size_t points);

}  // namespace comera::report
