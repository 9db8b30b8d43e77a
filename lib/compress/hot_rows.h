// The rows of a table that calibration text looks up most: they may stay as they are in the checkpoint, beside a chain
// for all others.
#pragma once

#include "lib/compress/layer.h"
#include "lib/compress/moments.h"

namespace comera::compress {

// The `count` rows of the largest weights, in rising order; of equal weights the rows that come first.
std::vector<std::int32_t> hot_rows(const std::vector<double>& row_weights, std::int64_t count);

// The evidence that text gives about a table made by `plan`; `moments` may be null.
Evidence table_evidence(InputMoments* moments, const Candidate& candidate, std::int64_t exact);

// A row that the text never looks up is not hot: no plan asks for more rows than it uses. InputError where nothing says
// which rows are hot.
void settle_exact_rows(std::vector<LayerPlan>& plans, InputMoments* moments);

}  // namespace comera::compress
