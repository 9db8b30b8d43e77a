#include "lib/report/output/text.h"

#include <ranges>

namespace comera::report {

std::vector<std::string> split(std::string_view text, char separator) {
  if (text.empty()) return {""};
  std::vector<std::string> parts;
  for (const auto part : std::views::split(text, separator)) parts.emplace_back(part.begin(), part.end());
  return parts;
}

}  // namespace comera::report
