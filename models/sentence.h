// The layout of sentence-transformers around a model folder: modules.json, the Pooling module's config.json,
// sentence_bert_config.json.
#pragma once

#include <string>

#include "models/encoder_spec.h"

namespace comera::models {

// InputError for modules and poolings that are not supported, by name. A folder without modules.json gives the
// defaults.
SentenceRules read_sentence_rules(const std::string& folder);

}  // namespace comera::models
