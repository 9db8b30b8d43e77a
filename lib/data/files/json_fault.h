// Explains a line that is no JSON.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace comera::data {

// Where and why reading failed, and what to write instead: "byte 19: NaN is ...". `byte`: where the reader stopped,
// counted from 1.
std::string json_fault(std::string_view line, std::size_t byte, bool number_too_large);

}  // namespace comera::data
