#include "lib/core/units.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "lib/core/reals.h"

namespace comera {
namespace {

template <class Number>
std::optional<Number> parse_whole(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Splits "1.5MB" into 1.5 and "MB". A number has digits, point and sign only: the "e" of "2e" is a unit, not an
// exponent.
std::optional<std::pair<double, std::string_view>> split_unit(std::string_view text) {
  const std::size_t end = std::min(text.find_first_not_of("0123456789.+-"), text.size());
  const std::optional<double> value = parse_real(text.substr(0, end));
  if (!value || *value < 0) return std::nullopt;
  std::string_view unit = text.substr(end);
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  return std::pair(*value, unit);
}

constexpr double most_in_full = 1e15, least_in_full = 1e-3;  // numbers outside this range have an exponent

// Returns the fewest digits that read back to the same value, and an exponent without leading zeros: 0.002, 5e-5.
// `in_full`: large numbers have no exponent.
std::string spelled(double value, bool in_full) {
  const bool fixed = value == 0 || (in_full && std::abs(value) >= least_in_full);
  std::array<char, 400> text{};
  const auto format = fixed ? std::chars_format::fixed : std::chars_format::scientific;
  std::string out(text.data(), std::to_chars(text.data(), text.data() + text.size(), value, format).ptr);
  const std::size_t exponent = out.find('e');
  if (exponent == std::string::npos) return out;
  std::size_t at = exponent + (out[exponent + 1] == '-' ? 2 : 1);
  while (out[at] == '+' || (out[at] == '0' && at + 1 < out.size())) out.erase(at, 1);
  return out;
}

}  // namespace

std::optional<std::int64_t> parse_integer(std::string_view text) {
  std::string digits(text);
  if (text.find('_') != std::string_view::npos && !text.starts_with('_') && !text.ends_with('_'))
    std::erase(digits, '_');
  return parse_whole<std::int64_t>(digits);
}

std::optional<double> parse_real(std::string_view text) {
  const std::optional<double> value = parse_whole<double>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

std::optional<std::uint64_t> parse_size(std::string_view text) {
  static constexpr std::array<std::pair<std::string_view, double>, 11> units{{{"", 1},
                                                                              {"B", 1},
                                                                              {"kB", 1e3},
                                                                              {"KB", 1e3},
                                                                              {"MB", 1e6},
                                                                              {"GB", 1e9},
                                                                              {"TB", 1e12},
                                                                              {"KiB", 1024.0},
                                                                              {"MiB", 1048576.0},
                                                                              {"GiB", 1073741824.0},
                                                                              {"TiB", 1099511627776.0}}};
  const auto parts = split_unit(text);
  if (!parts) return std::nullopt;
  for (const auto& [name, scale] : units) {
    if (parts->second != name) continue;
    const double bytes = std::round(parts->first * scale);
    if (bytes >= 9.2e18 || (scale == 1 && bytes != parts->first)) return std::nullopt;
    return static_cast<std::uint64_t>(bytes);
  }
  return std::nullopt;
}

std::optional<Period> parse_period(std::string_view text) {
  using Unit = Period::Unit;
  const auto parts = split_unit(text);
  if (!parts) return std::nullopt;
  const auto [value, unit] = *parts;
  if (unit.empty() || unit == "steps" || unit == "step") {
    if (value != std::floor(value) || value > 1e15) return std::nullopt;
    return Period{Unit::steps, value};
  }
  if (unit == "e" || unit == "epochs" || unit == "epoch") return Period{Unit::epochs, value};
  if (unit == "s" || unit == "sec") return Period{Unit::seconds, value};
  if (unit == "m" || unit == "min") return Period{Unit::seconds, value * 60};
  if (unit == "h") return Period{Unit::seconds, value * 3600};
  if (unit == "d") return Period{Unit::seconds, value * 86400};
  return std::nullopt;
}

std::string to_string(Period period) {
  switch (period.unit) {
    case Period::Unit::steps: return fmt::format("{:.0f}", period.value);
    case Period::Unit::epochs: return fmt::format("{}e", format_real(period.value));
    case Period::Unit::seconds: break;
  }
  for (const auto& [unit, seconds] : {std::pair("d", 86400.0), {"h", 3600.0}, {"m", 60.0}})
    if (period.value >= seconds && std::fmod(period.value, seconds) == 0)
      return fmt::format("{:.0f}{}", period.value / seconds, unit);
  return fmt::format("{}s", format_real(period.value));
}

std::string format_real(double value) {
  if (value == std::floor(value) && std::abs(value) < most_in_full) return fmt::format("{:.0f}", value);
  return spelled(value, std::abs(value) < most_in_full);
}

std::string format_digits(double value, int digits) {
  if (!std::isfinite(value)) return fmt::format("{}", value);
  return spelled(std::strtod(fmt::format("{:.{}e}", value, digits - 1).c_str(), nullptr), std::abs(value) < 1e6);
}

std::string format_bytes(std::uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes);
  const char* const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  int unit = 0;
  while (value >= 1024 && unit < 6) value /= 1024, ++unit;
  return value < 10    ? fmt::format("{:.2f} {}", value, units[unit])
         : value < 100 ? fmt::format("{:.1f} {}", value, units[unit])
                       : fmt::format("{:.0f} {}", value, units[unit]);
}

std::string format_count(double count) {
  const char* const units[] = {"", "k", "M", "G", "T"};
  int unit = 0;
  while (std::abs(count) >= 1000 && unit < 4) count /= 1000, ++unit;
  if (unit == 0) return fmt::format("{:.0f}", count);
  return std::abs(count) < 10    ? fmt::format("{:.2f}{}", count, units[unit])
         : std::abs(count) < 100 ? fmt::format("{:.1f}{}", count, units[unit])
                                 : fmt::format("{:.0f}{}", count, units[unit]);
}

std::string format_seconds(double seconds) {
  if (!std::isfinite(seconds)) return "?";
  if (seconds < 10) return fmt::format("{:.2f}s", seconds);
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  if (whole < 60) return fmt::format("{}s", whole);
  if (whole < 3600) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  if (whole < 86400) return fmt::format("{}h{:02}m", whole / 3600, whole % 3600 / 60);
  return fmt::format("{}d{:02}h", whole / 86400, whole % 86400 / 3600);
}

}  // namespace comera
