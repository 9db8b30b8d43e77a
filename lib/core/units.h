// Parsers and formatters of numbers: "20m", "2e", "1.5MB", "97k". A parser returns nullopt if any part of the text is
// not valid.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace comera {

// A number of steps ("500"), of epochs ("2e") or a time ("90s", "20m", "8h", "1d").
struct Period {
  enum class Unit { steps, epochs, seconds };
  Unit unit = Unit::steps;
  double value = 0;
  bool operator==(const Period&) const = default;
};

std::optional<std::int64_t> parse_integer(std::string_view text);  // "64", "-1", "1_000_000"
std::optional<double> parse_real(std::string_view text);           // finite only
std::optional<std::uint64_t> parse_size(std::string_view text);    // bytes: "4096", "1.5MB" (10^6), "2GiB" (2^30)
std::optional<Period> parse_period(std::string_view text);

std::string to_string(Period period);           // reads back to the same value
std::string format_real(double value);          // shortest text that reads back to the same value
std::string format_bytes(std::uint64_t bytes);  // "812 MiB", "1.4 GiB"
std::string format_count(double count);         // "97k", "1.49M"
std::string format_seconds(double seconds);     // "3m20s", "1h05m", "0.42s"

}  // namespace comera
