// The description of a decoder: the values of a Hugging Face LlamaConfig, MistralConfig, Qwen2Config, Qwen3Config or
// GPT2Config.
#pragma once

#include "models/decoder/rope.h"
#include "models/spec.h"

namespace comera::models {

// Families whose files have other names or defaults. Mistral models without a window are llama models.
enum class DecoderFamily : std::uint8_t { llama, mistral, qwen2, qwen3, gpt2 };

struct DecoderSpec : Spec {
  DecoderSpec() {
    task = Task::clm;
    positions = 2048;
    epsilon = 1e-6;
  }

  std::int64_t key_heads = 0;  // number of key and value heads, a divisor of `heads`
  std::int64_t head_size = 0;  // even
  double theta = 10000;        // base of the rotary angles
  RopeScaling scaling = {};    // of these angles
  DecoderFamily family = DecoderFamily::llama;
  bool qkv_bias = false, output_bias = false, mlp_bias = false;
  bool head_norms = false;       // an RMS norm of each head of queries and of keys before the rotation
  std::int64_t window = 0;       // keys that a query attends to in layers with a window, its own included; 0: no window
  std::vector<bool> windowed;    // by layer: it has the window; empty without a window
  double embedding_dropout = 0;  // GPT-2
  bool bare = false;             // GPT-2: names without the prefix "transformer."
  bool tied = false;             // the word table is also the head
  std::int64_t begin = 1;        // ids of the pieces before and after a text; -1: none
  std::vector<std::int64_t> end{2};
};

// Names of the weights.
struct DecoderNames {
  static constexpr const char *word = "model.embed_tokens", *final_norm = "model.norm", *head = "lm_head";
  static constexpr const char *query = "self_attn.q_proj", *key = "self_attn.k_proj", *value = "self_attn.v_proj",
                              *output = "self_attn.o_proj";
  static constexpr const char *query_norm = "self_attn.q_norm", *key_norm = "self_attn.k_norm";
  static constexpr const char *gate = "mlp.gate_proj", *up = "mlp.up_proj", *down = "mlp.down_proj";
  static constexpr const char *first_norm = "input_layernorm", *middle_norm = "post_attention_layernorm";
  static std::string block(std::int64_t index);
  static std::string layer(std::int64_t index, const char* part);
};

inline bool has_rotary(const DecoderSpec& spec) { return spec.family != DecoderFamily::gpt2; }
inline bool has_window(const DecoderSpec& spec, std::int64_t layer) {
  return spec.window > 0 && spec.windowed[static_cast<std::size_t>(layer)];
}

std::string word_name(const DecoderSpec& spec);
// The table whose rows give the logits of the next word: the words' own if they are tied.
std::string decoder_of_words(const DecoderSpec& spec);

// Every weight that --form applies to: all linear layers, the word table, and an untied head.
std::vector<WeightSite> weight_sites(const DecoderSpec& spec);

// A decoder has only one task. InputError for others.
DecoderSpec with_head(const DecoderSpec& spec, Task task, const std::vector<std::string>& labels);

// InputError if sizes are inconsistent.
void check(const DecoderSpec& spec);

}  // namespace comera::models
