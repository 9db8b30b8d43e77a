// Fits tables to the width of a terminal: a wide table loses its least important parts. Scripts read csv, jsonl or
// --json, which are complete.
#pragma once

#include <string>
#include <string_view>

#include "lib/report/output/table.h"

namespace comera::report {

// Renders the plain table in at most `columns` columns. It applies these steps in order until the table fits: short
// names of weights (lib/report/output/fold.h); titles on several lines; one row as a line per column; without the
// columns of Table::dispensable in that order; long texts and titles cut; without columns at the right. A line below
// names the removed columns. The notes of the columns that are left follow.
std::string render_fitted(const Table& table, int columns);

// Renders the plain table for stdout. On a terminal, or if COLUMNS is set, equal rows of weights are folded
// (lib/report/output/fold.h) and the table is fitted. In a pipe or a file it is complete. Notes of columns follow.
std::string render_for_stdout(const Table& table, Format format = Format::table);  // other formats: complete

// Prepares lines of text for stdout, without control characters (file names may have them). On a terminal, or if
// COLUMNS is set, long lines are broken at blanks.
std::string wrap_for_stdout(std::string_view text);

}  // namespace comera::report
