// Charts as inline SVG without scripts or network access. The colours come from the page (lib/report/output/html.h),
// for light and dark mode. Sizes are in units of the viewBox, chosen so that text is readable on a phone with a chart
// width of 340 px.
#pragma once

#include <string>
#include <vector>

#include "lib/report/output/table.h"

namespace comera::report {

constexpr double character_width = 7;  // room for a character in a picture

struct Series {
  std::string name;
  std::vector<double> x, y;  // NaN in y: a gap
  bool points = false;       // a mark at each point, for few measured points
  bool steps = false;        // holds its value until the next point (ranks)
  // Names of single points; not empty: marks with names in place of a line. A name is left out where it has no room.
  std::vector<std::string> names = {};
};

struct Chart {
  std::string title;
  std::string x_label = "step";
  Unit unit = Unit::plain;    // of y
  Unit x_unit = Unit::plain;  // plain: numbers alone
  std::vector<Series> series = {};
  bool from_zero = false;  // y starts at 0
  bool log_scale = false;  // of y; ignored if a value is not positive
  bool legend = true;      // shown for more than one series
  double width = 400, height = 240;
};

// Returns "" if there is no finite point.
std::string line_chart(const Chart& chart);

// One group of bars: current values over paler bars of the initial values.
struct RankBars {
  std::vector<double> now, start;  // of equal length; start may be empty
};
// A row of small bars, each with its number below. `scale` is the value of full height.
std::string rank_bars(const RankBars& bars, double scale);

}  // namespace comera::report
