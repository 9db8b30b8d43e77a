#include "lib/report/weights/weight_bars.h"

#include <fmt/core.h>

#include <algorithm>

#include "lib/core/terminal/log.h"
#include "lib/core/units.h"
#include "lib/report/output/table.h"

namespace comera::report {
namespace {

double largest_error(std::span<const WeightBar> bars) {
  double largest = 0;
  for (const WeightBar& bar : bars) largest = std::max(largest, bar.error.value_or(0));
  return largest;
}

std::string stripe(const char* look, double share) {
  return fmt::format("<i class=\"{}\" style=\"width:{:.2f}%\"></i>", look, 100 * share);
}

std::string bytes_of(const WeightBar& bar) {
  if (bar.before == bar.after) return format_bytes(bar.after);
  return fmt::format("{} to {}", format_bytes(bar.before), format_bytes(bar.after));
}

std::string row_of(const WeightBar& bar, double largest) {
  const double kept = static_cast<double>(bar.after) / static_cast<double>(std::max<std::uint64_t>(1, bar.before));
  std::string out = fmt::format("<b>{}</b><span class=\"track was\">{}</span><span>{}</span>",
                                escape_html(printable(bar.name)), stripe("now", std::min(1.0, kept)), bytes_of(bar));
  if (!bar.error) return out + "<span></span><span></span>\n";
  const double share = largest > 0 ? *bar.error / largest : 0;
  return out + fmt::format("<span class=\"track\">{}</span><span>{:.3f}</span>\n", stripe("err", share), *bar.error);
}

}  // namespace

std::string share_bars(std::span<const ShareBar> bars, const std::string& total_name) {
  std::uint64_t total = 0;
  for (const ShareBar& bar : bars) total += bar.bytes;
  std::string out = "<div class=\"kinds\">\n";
  for (const ShareBar& bar : bars)
    out += fmt::format(
        "<b>{}</b><span class=\"track was\">{}</span><span>{}</span><span></span>\n", escape_html(bar.name),
        stripe("now", static_cast<double>(bar.bytes) / static_cast<double>(std::max<std::uint64_t>(1, total))),
        format_bytes(bar.bytes));
  return out + fmt::format(
                   "<b class=\"total\">{}</b><span class=\"total\">&nbsp;</span><span "
                   "class=\"total\">{}</span><span></span>\n</div>\n",
                   escape_html(total_name), format_bytes(total));
}

std::string weight_bars(std::span<const WeightBar> bars, const std::string& error_name) {
  if (bars.empty()) return "";
  const double largest = largest_error(bars);
  std::string out =
      fmt::format("<div class=\"weights\"><em>weight</em><em>bytes kept</em><em></em><em>{}</em><em></em>\n",
                  escape_html(error_name));
  for (const WeightBar& bar : bars) out += row_of(bar, largest);
  return out + "</div>\n";
}

}  // namespace comera::report
