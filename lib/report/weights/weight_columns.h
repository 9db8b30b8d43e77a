// The first columns of every table of weights: name, kind, shape, form, modes and ranks.
#pragma once

#include "lib/report/output/table.h"

namespace comera::report {

std::vector<Column> weight_columns();  // name, kind, shape, form, modes, ranks
// A form with the number of its table's exact rows.
std::string form_words(const std::string& form, std::int64_t exact);
// Empty lists of modes and ranks (dense weights) become empty cells. `exact`: the number of exact rows of a table,
// added to the form.
std::vector<Cell> weight_cells(const std::string& name, const std::string& kind, const std::vector<std::int64_t>& shape,
                               const std::string& form, const std::vector<std::int64_t>& modes,
                               const std::vector<std::int64_t>& ranks, std::int64_t exact = 0);

Cell list_or_nothing(const std::vector<std::int64_t>& list);
Cell whole(std::uint64_t value);
void append(std::vector<Cell>& row, std::vector<Cell> more);
void append(std::vector<Column>& columns, const std::vector<Column>& more);

}  // namespace comera::report
