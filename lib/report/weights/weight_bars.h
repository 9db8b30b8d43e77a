// Bar charts of sizes: the weights of a compressed model before and after with their errors, and the parts of a sum of
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
  std::optional<double> error;          // relative; empty if the weight is unchanged or the error is not measured
};

// A bar shows the remaining share of a weight's bytes. All errors share one scale. Returns HTML without script,
// escaped; "" without bars.
std::string weight_bars(std::span<const WeightBar> bars, const std::string& error_name);

struct ShareBar {
  std::string name;
  std::uint64_t bytes = 0;
};

// A bar for each part of a sum, with the sum in the last line.
std::string share_bars(std::span<const ShareBar> bars, const std::string& total_name);

}  // namespace comera::report
