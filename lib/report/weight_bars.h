// Pictures of sizes: the weights of a compressed model before and after with their errors, and the parts of a sum of
// bytes.
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

// A bar is the share of a weight's bytes that is left; errors are on one scale. HTML without script, escaped. "" where
// there are no bars.
std::string weight_bars(std::span<const WeightBar> bars, const std::string& error_name);

struct ShareBar {
  std::string name;
  std::uint64_t bytes = 0;
};

// A bar for each part of a sum, the sum in the last line.
std::string share_bars(std::span<const ShareBar> bars, const std::string& total_name);

}  // namespace comera::report
