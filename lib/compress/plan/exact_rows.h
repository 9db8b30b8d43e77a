// Chooses the exact rows of a table: the rows that calibration text looks up most. They are stored as they are, beside
// a chain for the other rows.
#pragma once

#include "lib/compress/calibration/moments.h"
#include "lib/compress/fit/layer.h"

namespace comera::compress {

// The `count` rows with the largest weights, in rising order. Rows of equal weight: the lower index first.
std::vector<std::int32_t> most_frequent_rows(const std::vector<double>& row_weights, std::int64_t count);

// The evidence for a table with `exact` exact rows. `moments` may be null.
Evidence table_evidence(InputMoments* moments, const Candidate& candidate, std::int64_t exact);

// Limits the exact rows of a plan to the rows that the text uses. InputError if there is no text, or no counts for the
// table.
void settle_exact_rows(LayerPlan& plan, InputMoments* moments);

}  // namespace comera::compress
