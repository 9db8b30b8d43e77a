// config.json of an encoder: the keys of Hugging Face's BERT and RoBERTa-PreLayerNorm, and the `comera` block with every weight's form.
#pragma once

#include <string>

#include "models/encoder_spec.h"

namespace comera::models {

std::string to_config_json(const EncoderSpec& spec, const layers::Model& model);
// `name` stands in messages. Keys that we do not know are ignored; a value that changes the arithmetic and is not supported is an InputError.
EncoderSpec parse_config_json(const std::string& text, const std::string& name);

}  // namespace comera::models
