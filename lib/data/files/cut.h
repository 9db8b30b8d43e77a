// Positions at which a long text may be cut in two.
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>

namespace comera::data {

// The parts are text[0, end) and text[next, ..). A blank between them belongs to neither. next >= 1.
struct Cut {
  std::size_t end = 0, next = 0;
};
using CutRule = std::function<Cut(std::string_view text)>;

// The longest part of a text that is tokenised at once, in bytes.
constexpr std::size_t longest_part = std::size_t{1} << 18;
// A longer part is tokenised in parts of this size if the result is the same.
constexpr std::size_t usual_part = longest_part / 8;

// Cuts at the last blank or tab. Without one, cuts after the last character.
Cut cut_at_blank(std::string_view text);

// The first `most` bytes, without the bytes of an incomplete last character.
std::string_view whole_characters(std::string_view text, std::size_t most);

}  // namespace comera::data
