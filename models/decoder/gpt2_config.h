// GPT-2: names of its weights, and the keys of Hugging Face's GPT2Config.
#pragma once

#include "models/config_reader.h"
#include "models/decoder/decoder_spec.h"

namespace comera::models {

// Names of the weights. Some checkpoints lack the prefix "transformer.".
struct Gpt2Names {
  explicit Gpt2Names(const DecoderSpec& spec);
  std::string block(std::int64_t index) const;
  std::string layer(std::int64_t index, const char* part) const;

  static constexpr const char *first_norm = "ln_1", *attention = "attn", *qkv = "attn.c_attn", *output = "attn.c_proj",
                              *middle_norm = "ln_2", *up = "mlp.c_fc", *down = "mlp.c_proj";
  std::string word, position, final_norm;

 private:
  std::string root_;
};

std::vector<WeightSite> gpt2_sites(const DecoderSpec& spec);

inline constexpr const char* gpt2_type = "gpt2";
void write_gpt2_config(const DecoderSpec& spec, io::Json& config);
DecoderSpec parse_gpt2_config(const ConfigReader& reader, bool without_prefix);

}  // namespace comera::models
