#include "lib/compress/settings.h"

namespace comera::compress {

std::vector<std::optional<std::uint64_t>> Goal::size_budgets(std::uint64_t dense_bytes) const {
  std::vector<std::optional<std::uint64_t>> all(budgets.begin(), budgets.end());
  for (const double ratio : ratios)
    all.emplace_back(static_cast<std::uint64_t>(static_cast<double>(dense_bytes) / ratio));
  if (all.empty()) all.emplace_back();
  return all;
}

}  // namespace comera::compress
