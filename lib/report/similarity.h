// The quality of sentence embeddings against people's judgement: `comera evaluate` of an encoder without head.
#pragma once

#include "lib/report/evaluation.h"
#include "lib/train/similarity.h"

namespace comera::report {

Table to_table(const train::Similarity& similarity);
Json to_json(const train::Similarity& similarity);

// As of evaluation.h, with the metrics spearman, spearman_error and pearson.
void require_metric(const train::Similarity& similarity, const Requirement& requirement);

}  // namespace comera::report
