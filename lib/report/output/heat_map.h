// A table of numbers as a picture: the larger a number within its row, the darker its cell.
#pragma once

#include <string>
#include <vector>

namespace comera::report {

struct HeatMap {
  std::string title;
  std::vector<std::string> columns, rows;   // their names
  std::vector<std::vector<double>> values;  // [row][column], not negative; NaN leaves the cell empty
};

// An inline SVG like those of svg.h, of the width that its names need. Returns "" without rows.
std::string heat_map(const HeatMap& map);

}  // namespace comera::report
