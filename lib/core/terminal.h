// Text for terminals: their width, and lines that fit.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace comera {

// Columns of the terminal behind a file descriptor; where it is none those of COLUMNS, else 80.
int terminal_columns(int descriptor);

// Columns that text takes: letters of UTF-8, for nearly all of them one column each.
std::size_t width_of(std::string_view text);

// Breaks text at blanks so that no line is longer than `columns`; lines after the first begin with `indent` blanks.
// `used`: columns that are taken on the first line. Words are never cut. No line end at the end.
std::string wrap(std::string_view text, int columns, int indent = 0, int used = 0);

}  // namespace comera
