// Reads the files of sentence-transformers in a model folder: modules.json, the Pooling module's config.json,
// sentence_bert_config.json, config_sentence_transformers.json.
#pragma once

#include <string>

#include "models/encoder/encoder_spec.h"

namespace comera::models {

// InputError that names an unsupported module or pooling. Returns the defaults for a folder without modules.json.
SentenceRules read_sentence_rules(const std::string& folder);

// The text that is put before every sentence: that of `default_prompt_name`; "" if there is none. InputError for a name
// without a prompt, and for a pooling that leaves out the tokens of the prompt.
std::string default_prompt(const std::string& folder);
// InputError if the folder has such a text. `verb` would read its sentences without it.
void require_no_prompt(const std::string& folder, const std::string& verb);

}  // namespace comera::models
