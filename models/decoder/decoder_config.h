// config.json of a decoder: the keys of Hugging Face's LlamaConfig, and the `comera` block with the form of every
// weight. A MistralConfig without an effective window is read as the equal LlamaConfig. The writer always writes a
// LlamaConfig.
#pragma once

#include <string>

#include "models/config_reader.h"
#include "models/decoder/decoder_spec.h"

namespace comera::models {

constexpr const char* decoder_types = "llama, mistral";
bool is_decoder_type(const std::string& model_type);

std::string to_config_json(const DecoderSpec& spec, const layers::Model& model);
DecoderSpec parse_decoder_config(const ConfigReader& reader);

}  // namespace comera::models
