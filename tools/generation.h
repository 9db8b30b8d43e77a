// `predict` with a decoder: generates a continuation of every line of stdin.
#pragma once

#include "tools/stored_model.h"

namespace comera::tools {

// The piece before a text: that of a tokenizer that knows what stands around a text, else of the checkpoint, else of
// the tokenizer; -1: none.
std::int32_t begin_piece(const data::Tokenizer& tokenizer, const models::DecoderSpec& spec);

std::vector<Option> generation_options();  // --max-tokens, --temperature, --top-p, --seed
int generate_lines(const OptionValues& values, StoredModel& stored);

}  // namespace comera::tools
