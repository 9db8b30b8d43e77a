// Names of weights in tables: shorter names, and one row for several weights with equal values.
#pragma once

#include "lib/report/table.h"

namespace comera::report {

// Rows that differ in their first cell alone, a name of parts with points between, become one at the place of the
// first; parts in which the names differ are ranges of numbers ("0-5"), up to three words ("key|query|value"), or "*".
// Where any row was folded a column "layers" counts them.
Table fold_equal_rows(Table table);

// Enough of a weight's name to know it by: "layer.0.attention.self.query".
std::string short_name(std::string_view name);
// Shortens the names in the first column; leaves them where two would be equal.
void shorten_names(Table& table);

}  // namespace comera::report
