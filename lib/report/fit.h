// Tables for people at a terminal: a wide one loses what matters least. Scripts read csv, jsonl or --json, where
// nothing is left out.
#pragma once

#include <string>
#include <string_view>

#include "lib/report/table.h"

namespace comera::report {

// The plain table in at most `columns` columns. It takes the first of these steps that is enough: short names of
// weights (lib/report/html.h); titles on several lines; one row as a line per column; without the columns of
// Table::dispensable in that order; long texts and titles cut; without columns at the right. A line below names the
// columns that were left out.
std::string render_fitted(const Table& table, int columns);

// The plain table for stdout: on a terminal, or where COLUMNS is set, equal rows of weights are one (lib/report/fold.h)
// and the table is fitted; whole in a pipe or a file.
std::string render_for_stdout(const Table& table, Format format = Format::table);  // other formats: whole

// Lines of text for stdout: on a terminal, or where COLUMNS is set, long ones are broken at blanks.
std::string wrap_for_stdout(std::string_view text);

}  // namespace comera::report
