#include "lib/report/output/svg.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>

#include "lib/core/terminal/log.h"
#include "lib/core/units.h"
#include "lib/report/output/label_places.h"
#include "lib/report/output/scale.h"

namespace comera::report {
namespace {

constexpr std::size_t max_points = 300;
constexpr double x_label_room = 80;
constexpr int y_labels = 4;  // approximate number
constexpr int colours = 8;   // --c0 ... --c7 of the page

double width_of(const std::string& label) { return character_width * static_cast<double>(label.size()); }

// Maps values to coordinates of the picture.
struct Frame {
  Range x, y;
  bool log_scale = false;
  double left = 40, right = 14, top = 12, bottom = 34, width = 400, height = 240;

  double at_x(double value) const { return left + (value - x.low) / (x.high - x.low) * (width - left - right); }
  double at_y(double value) const {
    const double share =
        log_scale ? std::log(value / y.low) / std::log(y.high / y.low) : (value - y.low) / (y.high - y.low);
    return height - bottom - share * (height - top - bottom);
  }
};

Range range_of(const std::vector<Series>& all, bool of_x) {
  Range range{INFINITY, -INFINITY};
  for (const Series& series : all)
    for (std::size_t i = 0; i < series.x.size(); ++i) {
      if (!std::isfinite(series.y[i])) continue;
      const double value = of_x ? series.x[i] : series.y[i];
      range = {std::min(range.low, value), std::max(range.high, value)};
    }
  return range;
}

// Places a flat line in the middle of its picture.
Range widened(Range range) {
  if (range.high > range.low) return range;
  const double half = range.low == 0 ? 1 : std::abs(range.low) / 2;
  return {range.low - half, range.high + half};
}

// Makes ticks of bytes round in the displayed unit.
double tick_scale(double high, Unit unit) {
  return unit == Unit::bytes ? std::pow(1024, std::floor(std::log2(std::max(1.0, high)) / 10)) : 1;
}

// The range of shares covers at least ten percentage points, so that noise does not look like progress, and stays
// between 0 and 100 %.
Range sane_share(Range y) {
  constexpr double least = 0.1;
  const double middle = (y.low + y.high) / 2, half = std::max(least, y.high - y.low) / 2;
  const double low = std::clamp(middle - half, 0.0, 1 - 2 * half);
  return {low, low + 2 * half};
}

Range linear_range(const Chart& chart, Range y) {
  const bool is_share = chart.unit == Unit::share && y.low >= 0 && y.high <= 1;
  Range range = is_share ? sane_share(y) : widened(y);
  if (chart.from_zero && y.low >= 0) range.low = 0;
  const double scale = tick_scale(range.high, chart.unit);
  const Range rounded = on_ticks({range.low / scale, range.high / scale}, y_labels);
  range = {rounded.low * scale, rounded.high * scale};
  return is_share ? Range{std::max(0.0, range.low), std::min(1.0, range.high)} : range;
}

Frame frame_of(const Chart& chart, const std::vector<Series>& series) {
  Frame frame;
  frame.width = chart.width, frame.height = chart.height;
  frame.x = range_of(series, true);
  if (frame.x.low > 0 && frame.x.low <= 0.2 * frame.x.high) frame.x.low = 0;
  if (frame.x.high == frame.x.low)
    frame.x.low = std::min(0.0, frame.x.low), frame.x.high = std::max(frame.x.low + 1, frame.x.high);
  const auto named = [](const Series& one) { return !one.names.empty(); };
  if (std::any_of(series.begin(), series.end(), named)) {  // room for the marks at both ends
    const double margin = (frame.x.high - frame.x.low) / 16;
    frame.x = {std::max(frame.x.low >= 0 ? 0.0 : -INFINITY, frame.x.low - margin), frame.x.high + margin};
  }
  const Range y = range_of(series, false);
  frame.log_scale = chart.log_scale && y.low > 0 && y.high > 1.5 * y.low;
  frame.y = frame.log_scale ? y : linear_range(chart, y);
  return frame;
}

std::string short_number(double value, Unit unit) {
  switch (unit) {
    case Unit::share: return fmt::format("{:g} %", std::round(1e4 * value) / 100);
    case Unit::ratio: return fmt::format("{:g}x", value);
    case Unit::bytes: return value == 0 ? "0" : format_bytes(static_cast<std::uint64_t>(value));
    default: break;
  }
  if (std::abs(value) >= 1e6) return fmt::format("{:g}M", value / 1e6);
  if (std::abs(value) >= 1e4) return fmt::format("{:g}k", value / 1e3);
  return fmt::format("{:g}", std::abs(value) < 1e-12 ? 0.0 : value);
}

// Returns at least two ticks. Otherwise the axis would have no scale.
std::vector<double> two_ticks(Range range, int wanted) {
  std::vector<double> at = ticks(range, wanted);
  for (int count = 8; at.size() < 2 && count <= 64; count *= 2) at = ticks(range, count);
  return at;
}

std::vector<double> y_ticks(const Frame& frame, Unit unit) {
  if (frame.log_scale) {
    std::vector<double> at = log_ticks(frame.y, 4);
    return at.size() < 2 ? two_ticks(frame.y, y_labels) : at;
  }
  const double scale = tick_scale(frame.y.high, unit);
  std::vector<double> at = two_ticks({frame.y.low / scale, frame.y.high / scale}, y_labels);
  for (double& value : at) value *= scale;
  return at;
}

// Makes the left margin as wide as the longest label.
void make_room(Frame& frame, Unit unit) {
  constexpr double gap = 10;
  frame.left = 0;
  for (const double tick : y_ticks(frame, unit))
    frame.left = std::max(frame.left, gap + width_of(short_number(tick, unit)));
}

// Ticks of steps are integers.
std::vector<double> x_ticks(const Frame& frame, const Chart& chart) {
  const double scale = tick_scale(frame.x.high, chart.x_unit);
  std::vector<double> at =
      two_ticks({frame.x.low / scale, frame.x.high / scale}, std::max(2, static_cast<int>(frame.width / x_label_room)));
  for (double& value : at) value *= scale;
  std::vector<double> whole;
  std::copy_if(at.begin(), at.end(), std::back_inserter(whole),
               [](double tick) { return std::abs(tick - std::round(tick)) < 1e-9; });
  return chart.x_label == "step" && whole.size() >= 2 ? whole : at;
}

std::string axes(const Frame& frame, const Chart& chart) {
  std::string out;
  for (const double tick : y_ticks(frame, chart.unit)) {
    const double y = frame.at_y(tick);
    out += fmt::format("<line class=\"grid\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>", frame.left,
                       frame.width - frame.right, y, y);
    out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n", frame.left - 5, y + 4,
                       short_number(tick, chart.unit));
  }
  const double base = frame.height - frame.bottom;
  for (const double tick : x_ticks(frame, chart)) {
    const std::string label = short_number(tick, chart.x_unit);
    const double last = frame.width - width_of(label) / 2;  // a label further right would leave the picture
    out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n",
                       std::min(frame.at_x(tick), last), base + 15, label);
  }
  out += fmt::format("<line class=\"axis\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>", frame.left,
                     frame.width - frame.right, base, base);
  return out + fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n", frame.width - frame.right,
                           frame.height - 4, escape_html(chart.x_label));
}

std::string path_of(const Frame& frame, const Series& series) {
  std::string out;
  bool pen_down = false;
  for (std::size_t i = 0; i < series.x.size(); ++i) {
    if (!std::isfinite(series.y[i])) {
      pen_down = false;
      continue;
    }
    const double x = frame.at_x(series.x[i]), y = frame.at_y(series.y[i]);
    if (pen_down && series.steps)
      out += fmt::format("H{:.1f}V{:.1f}", x, y);
    else
      out += fmt::format("{}{:.1f} {:.1f}", pen_down ? "L" : "M", x, y);
    pen_down = true;
  }
  return out;
}

// Draws a series of one point as a mark with its number, because a line would be invisible.
std::string lone_mark(const Frame& frame, double x, double y, std::size_t colour, Unit unit) {
  const bool right = frame.at_x(x) > frame.width / 2;
  return fmt::format(
      "<circle class=\"dot c{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\"/><text class=\"mark\" x=\"{:.1f}\" y=\"{:.1f}\" "
      "text-anchor=\"{}\">{}</text>\n",
      colour, frame.at_x(x), frame.at_y(y), frame.at_x(x) + (right ? -8 : 8), frame.at_y(y) - 6,
      right ? "end" : "start", show(y, unit));
}

std::optional<std::size_t> only_point(const Series& series) {
  std::optional<std::size_t> only;
  for (std::size_t i = 0; i < series.y.size(); ++i) {
    if (!std::isfinite(series.y[i])) continue;
    if (only) return std::nullopt;
    only = i;
  }
  return only;
}

std::string named_marks(const Frame& frame, const Series& series, std::size_t colour, const Chart& chart) {
  LabelPlaces places(
      {frame.left, frame.top, frame.width - frame.left - frame.right, frame.height - frame.top - frame.bottom});
  std::string out;
  for (std::size_t i = 0; i < series.x.size(); ++i)
    if (std::isfinite(series.y[i])) places.keep_free(frame.at_x(series.x[i]), frame.at_y(series.y[i]));
  for (std::size_t i = 0; i < series.x.size(); ++i) {
    if (!std::isfinite(series.y[i])) continue;
    const double x = frame.at_x(series.x[i]), y = frame.at_y(series.y[i]);
    const std::string name = escape_html(printable(series.names[i]));
    out += fmt::format(
        "<circle class=\"dot c{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\"><title>{}: {}, {}</title></circle>\n", colour, x,
        y, name, show(series.x[i], chart.x_unit), show(series.y[i], chart.unit));
    if (const auto label = places.place(x, y, series.names[i].size()))
      out += fmt::format("<text class=\"name\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", label->x, label->y, name);
  }
  return out;
}

std::string drawing(const Frame& frame, const Series& series, std::size_t index, const Chart& chart) {
  const auto colour = index % colours;
  const Unit unit = chart.unit;
  if (!series.names.empty()) return named_marks(frame, series, colour, chart);
  if (const auto only = only_point(series)) return lone_mark(frame, series.x[*only], series.y[*only], colour, unit);
  std::string out = fmt::format("<path class=\"line c{}\" d=\"{}\"/>\n", colour, path_of(frame, series));
  if (!series.points) return out;
  for (std::size_t i = 0; i < series.x.size(); ++i)
    if (std::isfinite(series.y[i]))
      out += fmt::format(
          "<circle class=\"dot c{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\"><title>{:g}: {}</title></circle>\n", colour,
          frame.at_x(series.x[i]), frame.at_y(series.y[i]), series.x[i], show(series.y[i], unit));
  return out;
}

std::string legend(const Chart& chart) {
  if (chart.series.size() < 2 || !chart.legend) return "";
  std::string out = "<div class=\"legend\">";
  for (std::size_t i = 0; i < chart.series.size(); ++i)
    out +=
        fmt::format("<span><i class=\"c{}\"></i>{}</span>", i % colours, escape_html(printable(chart.series[i].name)));
  return out + "</div>";
}

}  // namespace

std::string line_chart(const Chart& chart) {
  std::vector<Series> series;
  for (const Series& one : chart.series) series.push_back(one.names.empty() ? thinned(one, max_points) : one);
  if (!std::isfinite(range_of(series, false).low)) return "";
  Frame frame = frame_of(chart, series);
  make_room(frame, chart.unit);
  const std::string title = escape_html(printable(chart.title));
  std::string out = fmt::format(
      "<figure><figcaption>{}</figcaption>\n<svg viewBox=\"0 0 {:g} {:g}\" role=\"img\" aria-label=\"{}\">\n", title,
      chart.width, chart.height, title);
  out += axes(frame, chart);
  for (std::size_t i = 0; i < series.size(); ++i) out += drawing(frame, series[i], i, chart);
  return out + "</svg>" + legend(chart) + "</figure>\n";
}

std::string rank_bars(const RankBars& bars, double scale) {
  constexpr double gap = 6, height = 34, text = 14;
  const double largest = bars.now.empty() ? 0 : *std::max_element(bars.now.begin(), bars.now.end());
  const double bar = std::max(18.0, width_of(fmt::format("{:g}", largest)) - gap / 2);
  const double width = static_cast<double>(bars.now.size()) * (bar + gap) + gap;
  std::string out = fmt::format("<svg class=\"bars\" viewBox=\"0 0 {:g} {:g}\" style=\"width:{:g}px\" role=\"img\">",
                                width, height + text, width);
  const auto rectangle = [&](const char* look, std::size_t i, double value) {
    const double tall = scale > 0 ? std::min(1.0, value / scale) * height : 0;
    out += fmt::format("<rect class=\"{}\" x=\"{:g}\" y=\"{:.1f}\" width=\"{:g}\" height=\"{:.1f}\"/>", look,
                       gap + static_cast<double>(i) * (bar + gap), height - tall, bar, tall);
  };
  for (std::size_t i = 0; i < bars.now.size(); ++i) {
    if (i < bars.start.size()) rectangle("was", i, bars.start[i]);
    rectangle("now", i, bars.now[i]);
    out += fmt::format("<text x=\"{:g}\" y=\"{:g}\" text-anchor=\"middle\">{:g}</text>",
                       gap + static_cast<double>(i) * (bar + gap) + bar / 2, height + text - 2, bars.now[i]);
  }
  return out + "</svg>";
}

}  // namespace comera::report
