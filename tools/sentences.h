// What evaluate and predict do with an encoder without head: sentence embeddings.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tools/stored_model.h"

namespace comera::tools {

// --data with two text columns and a score in --label: cosine of the embeddings against the scores.
int evaluate_sentences(const OptionValues& values, StoredModel& stored);

// Every line of stdin or row of --data as a vector: a line of numbers or an object each, one object with --json, or a
// file with --npy.
int embed_lines(const OptionValues& values, StoredModel& stored);

// NumPy's format 1.0: float32, C order.
std::string npy_bytes(std::span<const float> values, std::int64_t rows, std::int64_t columns);

}  // namespace comera::tools
