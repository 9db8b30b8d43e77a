// `evaluate` and `predict` with an encoder without head: sentence embeddings.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tools/stored_model.h"

namespace comera::tools {

// Needs --data with two text columns and a score in --label. Compares the cosine of the embeddings with the scores.
int evaluate_sentences(const OptionValues& values, StoredModel& stored);

// Prints every line of stdin or row of --data as a vector: a line of numbers, an object each with --jsonl, one object
// with --json, or a file with --npy.
int embed_lines(const OptionValues& values, StoredModel& stored);

// NumPy's format 1.0: float32, C order.
std::string npy_bytes(std::span<const float> values, std::int64_t rows, std::int64_t columns);

}  // namespace comera::tools
