// config.json of a decoder: the keys of Hugging Face's LlamaConfig, MistralConfig, Qwen2Config, Qwen3Config and
// GPT2Config, and the `comera` block with the form of every weight. A MistralConfig without an effective window is read
// and written as the equal LlamaConfig.
#pragma once

#include <string>
#include <vector>

#include "models/config_reader.h"
#include "models/decoder/decoder_spec.h"
#include "models/encoder/encoder_spec.h"

namespace comera::models {

constexpr const char* decoder_types = "llama, mistral, qwen2, qwen3, gpt2";
bool is_decoder_type(const std::string& model_type);

std::string to_config_json(const DecoderSpec& spec, const layers::Model& model);
// Ids that end a generated text: eos_token_id of the folder's generation_config.json, as transformers has it where the
// file exists (no id if the file has none), or that of config.json.
std::vector<std::int64_t> generation_ends(const std::string& folder, const DecoderSpec& spec);
DecoderSpec parse_decoder_config(const ConfigReader& reader, const StoredNames& names = {});

}  // namespace comera::models
