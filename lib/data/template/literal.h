// Literals of the template language: numbers, and the escapes of texts.
#pragma once

#include <string>
#include <string_view>

namespace comera::data::jinja {

struct NumberLiteral {
  std::string digits;  // without underscores; with 0x, 0o or 0b
  std::size_t size = 0;
  bool real = false;
};

// The number that `text` begins with. Behind a dot (as in list.0.1) it is whole.
NumberLiteral number_at(std::string_view text, bool behind_dot);

// A text between its quotes with Python's escapes read. SyntaxError, with `line`, for \N{...}, for numbers that are cut
// short and for those of no character.
std::string unescaped(std::string_view text, int line);

}  // namespace comera::data::jinja
