// The columns that every table of weights begins with: what a weight is and which form it has.
#pragma once

#include "lib/report/table.h"

namespace comera::report {

std::vector<Column> weight_columns();  // name, kind, shape, form, modes, ranks
// A form, and how many rows of its table stand beside the chain.
std::string form_words(const std::string& form, std::int64_t exact);
// Empty lists of modes and ranks (of dense weights) are nothing. `exact`: how many rows of a table stand beside its
// chain; a word behind the form.
std::vector<Cell> weight_cells(const std::string& name, const std::string& kind, const std::vector<std::int64_t>& shape,
                               const std::string& form, const std::vector<std::int64_t>& modes,
                               const std::vector<std::int64_t>& ranks, std::int64_t exact = 0);

Cell list_or_nothing(const std::vector<std::int64_t>& list);
Cell whole(std::uint64_t value);
void append(std::vector<Cell>& row, std::vector<Cell> more);
void append(std::vector<Column>& columns, const std::vector<Column>& more);

}  // namespace comera::report
