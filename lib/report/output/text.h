// Splits text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace comera::report {

std::vector<std::string> split(std::string_view text, char separator);  // returns at least one part, which may be ""

}  // namespace comera::report
