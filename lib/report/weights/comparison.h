// Tables and JSON of a comparison of two models: the cost of compression, and `comera evaluate A --against B`.
#pragma once

#include <string>

#include "lib/compress/check/comparison.h"
#include "lib/report/output/html.h"
#include "lib/report/run/evaluation.h"

namespace comera::report {

// "embeddings' cosine 0.941 (least 0.803), ..."; if nothing was measured, the reason.
std::string cost_words(const compress::Comparison& comparison);
Facts cost_facts(const compress::Comparison& comparison);  // the same numbers, each with its name
Table to_table(const compress::Comparison& comparison);
Json comparison_json(const compress::Comparison& comparison);            // part of a larger document
std::vector<Metric> metrics_of(const compress::Comparison& comparison);  // the metrics that were measured
const std::vector<std::string>& comparison_metrics();                    // names of all metrics

}  // namespace comera::report
