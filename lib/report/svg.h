// Charts as inline SVG: no script, no network, colours from the page (lib/report/html.h), so that they follow light and
// dark. Sizes are in the units of the viewBox, chosen so that text stays readable when a phone shows the chart 340 px
// wide.
#pragma once

#include <string>
#include <vector>

#include "lib/report/table.h"

namespace comera::report {

struct Series {
  std::string name;
  std::vector<double> x, y;  // NaN in y: a gap
  bool points = false;       // marks at each point (few, measured now and then)
  bool steps = false;        // holds its value until the next point (ranks)
};

struct Chart {
  std::string title;
  std::string x_label = "step";
  Unit unit = Unit::plain;  // of y
  std::vector<Series> series = {};
  bool from_zero = false;  // y starts at 0
  bool log_scale = false;  // y; ignored when a value is not positive
  bool legend = true;      // where there is more than one series
  double width = 400, height = 240;
};

// "" when there is no finite point.
std::string line_chart(const Chart& chart);

// One group of bars: what is now, over a paler bar of what was at the start.
struct RankBars {
  std::vector<double> now, start;  // of the same length; start may be empty
};
// Small bars in a row, each with its number below; `scale` is the value that fills the height.
std::string rank_bars(const RankBars& bars, double scale);

}  // namespace comera::report
