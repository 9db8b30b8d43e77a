// The agreement of sentence embeddings with human scores: `comera evaluate` of an encoder without head.
#pragma once

#include "lib/report/evaluation.h"
#include "lib/train/similarity.h"

namespace comera::report {

Table to_table(const train::Similarity& similarity);
Json to_json(const train::Similarity& similarity);

// As in evaluation.h, with the metrics spearman, spearman_error and pearson.
void require_metric(const train::Similarity& similarity, const Requirement& requirement);

}  // namespace comera::report
