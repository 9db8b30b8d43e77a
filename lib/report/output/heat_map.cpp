#include "lib/report/output/heat_map.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "lib/core/terminal/log.h"
#include "lib/report/output/html.h"

namespace comera::report {
namespace {

constexpr double gap = 2, row_height = 20, head_height = 22;

double width_of(const std::vector<std::string>& names) {
  std::size_t longest = 0;
  for (const std::string& name : names) longest = std::max(longest, name.size());
  return character_width * static_cast<double>(longest) + 12;
}

std::string text(double x, double y, const char* anchor, const std::string& words) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
                     escape_html(printable(words)));
}

// A full cell is not opaque, so that its number stays readable in light and dark mode.
std::string cell(double x, double y, double width, double value, double largest) {
  constexpr double darkest = 0.6;
  return fmt::format(
             "<rect class=\"now\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" "
             "fill-opacity=\"{:.2f}\"/>",
             x + gap / 2, y + gap / 2, width - gap, row_height - gap, largest > 0 ? darkest * value / largest : 0.0) +
         text(x + width / 2, y + row_height - 6, "middle", fmt::format("{:g}", std::round(10 * value) / 10));
}

}  // namespace

std::string heat_map(const HeatMap& map) {
  if (map.rows.empty()) return "";
  const double left = width_of(map.rows), column = std::max(48.0, width_of(map.columns));
  const double width = left + column * static_cast<double>(map.columns.size());
  const double height = head_height + row_height * static_cast<double>(map.rows.size());
  std::string out = fmt::format(
      "<figure class=\"scroll\"><figcaption>{}</figcaption>\n<svg class=\"map\" viewBox=\"0 0 {:g} {:g}\" "
      "style=\"width:{:g}px\" role=\"img\" aria-label=\"{}\">\n",
      escape_html(printable(map.title)), width, height, width, escape_html(printable(map.title)));
  const auto at = [&](std::size_t j) { return left + column * static_cast<double>(j); };
  for (std::size_t j = 0; j < map.columns.size(); ++j)
    out += text(at(j) + column / 2, head_height - 8, "middle", map.columns[j]);
  for (std::size_t i = 0; i < map.rows.size(); ++i) {
    const double y = head_height + row_height * static_cast<double>(i);
    out += text(0, y + row_height - 6, "start", map.rows[i]);
    double largest = 0;
    for (const double value : map.values[i])
      if (std::isfinite(value)) largest = std::max(largest, value);
    for (std::size_t j = 0; j < map.columns.size(); ++j)
      if (std::isfinite(map.values[i][j])) out += cell(at(j), y, column, map.values[i][j], largest);
  }
  return out + "</svg></figure>\n";
}

}  // namespace comera::report
