// Shortens names of weights in tables and folds several weights with equal values into one row.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/report/output/table.h"

namespace comera::report {

// Folds rows that differ only in their first cell, a name with parts separated by dots, into one row at the place of
// the first. Parts that differ become ranges of numbers ("0-5"), up to three words ("key|query|value"), or "*". If any
// row was folded, a column "layers" counts the rows.
Table fold_equal_rows(Table table);

// Returns the part of a weight's name that identifies it: "layer.0.attention.self.query".
std::string short_name(std::string_view name);
// The short name of each weight; the names as they are if two would become equal.
std::vector<std::string> short_names(const std::vector<std::string>& names);
// The same for the names in the first column.
void shorten_names(Table& table);

}  // namespace comera::report
