// A place where a long text may be cut in two.
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>

namespace comera::data {

// The parts are text[0, end) and text[next, ..); the blank between them, if there is one, belongs to none. next >= 1.
struct Cut {
  std::size_t end = 0, next = 0;
};
using CutRule = std::function<Cut(std::string_view text)>;

// The longest part of a line that is tokenised at once, in bytes.
constexpr std::size_t longest_part = std::size_t{1} << 18;

// At the last blank or tab, else behind the last character.
Cut cut_at_blank(std::string_view text);

// The first `most` bytes, less those of a character that is cut in two.
std::string_view whole_characters(std::string_view text, std::size_t most);

}  // namespace comera::data
