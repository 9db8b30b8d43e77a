// The picture of a compressed model: per weight its bytes before and after, and its error.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace comera::report {

struct WeightBar {
  std::string name;
  std::uint64_t before = 0, after = 0;  // bytes
  std::optional<double> error;          // relative; nothing where the weight stayed as it was
};

// A bar is the share of a weight's bytes that is left; errors are on one scale. HTML without script, escaped. "" where there are no bars.
std::string weight_bars(std::span<const WeightBar> bars, const std::string& error_name);

}  // namespace comera::report
