#include "lib/report/output/scale.h"

#include <algorithm>
#include <cmath>

namespace comera::report {
namespace {

double round_step(double raw) {
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (raw <= factor * power * 1.0001) return factor * power;
  return 10 * power;
}

Series corners_of(const Series& series) {
  Series out = series;
  out.x.clear(), out.y.clear();
  for (std::size_t i = 0; i < series.x.size(); ++i) {
    const bool inner = i > 0 && i + 1 < series.x.size();
    if (inner && series.y[i] == series.y[i - 1]) continue;
    out.x.push_back(series.x[i]);
    out.y.push_back(series.y[i]);
  }
  return out;
}

}  // namespace

std::vector<double> ticks(Range range, int count) {
  std::vector<double> at;
  if (!(range.high > range.low)) return {range.low};
  const double step = round_step((range.high - range.low) / count);
  const double first = std::ceil(range.low / step - 1e-9);
  for (int i = 0; i <= 2 * count + 2 && (first + i) * step <= range.high + 1e-9 * step; ++i)
    at.push_back((first + i) * step);
  return at;
}

Range on_ticks(Range range, int count) {
  // Repeats, because a wider range may need larger steps.
  for (int i = 0; i < 3 && range.high > range.low; ++i) {
    const double step = round_step((range.high - range.low) / count);
    range = {std::floor(range.low / step + 1e-9) * step, std::ceil(range.high / step - 1e-9) * step};
  }
  return range;
}

std::vector<double> log_ticks(Range range, int count) {
  const int low = static_cast<int>(std::floor(std::log10(range.low))),
            high = static_cast<int>(std::ceil(std::log10(range.high)));
  std::vector<double> at;
  const int every = std::max(1, (high - low) / count);
  const bool few = high - low <= 2;
  for (int power = low; power <= high; power += every)
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double value = factor * std::pow(10.0, power);
      if ((factor == 1 || few) && value >= range.low * 0.999 && value <= range.high * 1.001) at.push_back(value);
    }
  return at;
}

Series thinned(const Series& series, std::size_t points) {
  if (series.steps) return corners_of(series);
  const std::size_t size = series.x.size();
  if (size <= points) return series;
  Series out = series;
  out.x.clear(), out.y.clear();
  for (std::size_t bucket = 0; bucket < points; ++bucket) {
    const std::size_t begin = bucket * size / points, end = (bucket + 1) * size / points;
    double x = 0, y = 0, finite = 0;
    for (std::size_t i = begin; i < end; ++i) {
      if (!std::isfinite(series.y[i])) continue;
      x += series.x[i], y += series.y[i], finite += 1;
    }
    out.x.push_back(finite ? x / finite : series.x[begin]);
    out.y.push_back(finite ? y / finite : std::nan(""));
  }
  return out;
}

}  // namespace comera::report
