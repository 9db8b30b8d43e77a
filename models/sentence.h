// Reads the files of sentence-transformers in a model folder: modules.json, the Pooling module's config.json,
// sentence_bert_config.json.
#pragma once

#include <string>

#include "models/encoder/encoder_spec.h"

namespace comera::models {

// InputError that names an unsupported module or pooling. Returns the defaults for a folder without modules.json.
SentenceRules read_sentence_rules(const std::string& folder);

}  // namespace comera::models
