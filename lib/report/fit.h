// Tables for people at a terminal: a wide one loses what matters least. Scripts read csv, jsonl or --json, where nothing is left out.
#pragma once

#include <string>

#include "lib/report/table.h"

namespace comera::report {

// The plain table in at most `columns` columns, where that can be: first short names (lib/report/html.h), then without the columns of
// Table::dispensable in that order, at last with names cut in their middle. A line below names the columns that were left out.
std::string render_fitted(const Table& table, int columns);

// The plain table for stdout: on a terminal, or where COLUMNS is set, equal rows of weights are one (lib/report/fold.h) and the table is
// fitted; whole in a pipe or a file.
std::string render_for_stdout(const Table& table);

}  // namespace comera::report
