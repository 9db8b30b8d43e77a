// Chooses the exact rows of a table: the rows that calibration text looks up most. They are stored as they are, beside
// a chain for the other rows.
#pragma once

#include "lib/compress/calibration/moments.h"
#include "lib/compress/fit/layer.h"

namespace comera::compress {

// The `count` rows with the largest weights, in rising order. Rows of equal weight: the lower index first.
std::vector<std::int32_t> most_frequent_rows(const std::vector<double>& row_weights, std::int64_t count);

// The numbers of exact rows that a table on a grid may have: that of `first`, or 0 and those of which the text uses the
// rows. `row_weights` may be empty: the text does not count the rows.
std::vector<std::int64_t> exact_row_choices(const LayerPlan& first, const std::vector<double>& row_weights);

// The evidence for a table with `exact` exact rows. `moments` may be null.
Evidence table_evidence(InputMoments* moments, const Candidate& candidate, std::int64_t exact);

// Limits the exact rows of each plan to the rows that the text uses. A table without counts has none if its number is
// that of all tables. InputError if there is no text; no counts for a table with a number of its own; no counts for
// any table.
void settle_exact_rows(const std::vector<LayerPlan*>& plans, InputMoments* moments);

}  // namespace comera::compress
