// The agreement of sentence embeddings with human scores: `comera evaluate` of an encoder without head.
#pragma once

#include "lib/engine/similarity.h"
#include "lib/report/run/evaluation.h"

namespace comera::report {

Table to_table(const engine::Similarity& similarity);
Json to_json(const engine::Similarity& similarity);

// As in evaluation.h, with the metrics spearman, spearman_error and pearson.
void require_metric(const engine::Similarity& similarity, const Requirement& requirement);

}  // namespace comera::report
