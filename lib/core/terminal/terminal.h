// Terminal width, and line wrapping of text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace comera {

// Columns of the terminal at a file descriptor. If it is no terminal: the value of COLUMNS, else 80.
int terminal_columns(int descriptor);

// Number of columns that a text takes. Counts UTF-8 characters; nearly all of them take one column.
std::size_t width_of(std::string_view text);

// Breaks text at blanks, so that no line is longer than `columns`. Lines after the first begin with `indent` blanks.
// `used` is the number of columns already used on the first line. Words are never cut. The result has no final line
// end.
std::string wrap(std::string_view text, int columns, int indent = 0, int used = 0);

}  // namespace comera
