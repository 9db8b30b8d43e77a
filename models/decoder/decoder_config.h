// config.json of a decoder: the keys of Hugging Face's LlamaConfig, MistralConfig, Qwen2Config, Qwen3Config and
// GPT2Config, and the `comera` block with the form of every weight. A MistralConfig without an effective window is read
// and written as the equal LlamaConfig.
#pragma once

#include <string>

#include "models/config_reader.h"
#include "models/decoder/decoder_spec.h"
#include "models/encoder/encoder_spec.h"

namespace comera::models {

constexpr const char* decoder_types = "llama, mistral, qwen2, qwen3, gpt2";
bool is_decoder_type(const std::string& model_type);

std::string to_config_json(const DecoderSpec& spec, const layers::Model& model);
DecoderSpec parse_decoder_config(const ConfigReader& reader, const StoredNames& names = {});

}  // namespace comera::models
