// Rows of a table that say the same of several weights, as one.
#pragma once

#include "lib/report/table.h"

namespace comera::report {

// Rows that differ in their first cell alone, a name of parts with points between, become one at the place of the first; parts in which the names
// differ are ranges of numbers ("0-5"), up to three words ("key|query|value"), or "*". Where any row was folded a column "layers" counts them.
Table fold_equal_rows(Table table);

}  // namespace comera::report
