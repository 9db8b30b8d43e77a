// Sorted ranges of code points.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>

namespace comera::data {

struct CodePoints {
  std::uint32_t first, last;
};

template <std::size_t N>
bool within(const CodePoints (&ranges)[N], std::uint32_t code_point) {
  const CodePoints* end = std::end(ranges);
  const CodePoints* found = std::lower_bound(std::begin(ranges), end, code_point,
                                             [](const CodePoints& range, std::uint32_t c) { return range.last < c; });
  return found != end && found->first <= code_point;
}

}  // namespace comera::data
