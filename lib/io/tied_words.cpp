#include "lib/io/tied_words.h"

#include <algorithm>
#include <string>

#include "lib/core/glob.h"

namespace comera::io {
namespace {

constexpr Tie ties[] = {{"*embed_tokens", "*lm_head"},
                        {"*wte", "*lm_head"},
                        {"*embeddings.word_embeddings", "*cls.predictions.decoder"},
                        {"*embeddings.word_embeddings", "*lm_head.decoder"},
                        {"*embeddings.word_embeddings", "*vocab_projector"},
                        {"*embeddings.tok_embeddings", "decoder"}};

std::string text_of(const Json& config, const char* key) {
  const auto found = config.find(key);
  return found != config.end() && found->is_string() ? found->get<std::string>() : "";
}

bool is_tied_by_default(const std::string& type, std::string_view table) {
  if (type.empty()) return !table.ends_with("embed_tokens");
  return type != "llama" && type != "mistral" && type != "qwen2" && type != "qwen3";
}

}  // namespace

std::span<const Tie> known_ties() { return ties; }

bool is_head_of_words(std::string_view name) {
  return std::ranges::any_of(ties, [&](const Tie& tie) { return glob_match(tie.head, name); });
}

bool says_tied(const Json& config, std::string_view table) {
  const auto said = config.find("tie_word_embeddings");
  return said != config.end() && said->is_boolean() ? said->get<bool>()
                                                    : is_tied_by_default(text_of(config, "model_type"), table);
}

bool has_decoder_of_words(const Json& config) {
  const auto found = config.find("architectures");
  if (found == config.end() || !found->is_array() || found->size() != 1 || !(*found)[0].is_string()) return true;
  const std::string name = (*found)[0].get<std::string>();
  // The head of GPT2Model is made of its table, as comera runs it.
  if (name == "GPT2Model") return true;
  const auto ends = [&](const char* ending) { return name.ends_with(ending); };
  if (ends("LMHeadModel") || ends("DoubleHeadsModel")) return true;
  return !ends("Model") && !ends("Classification") && !ends("ForQuestionAnswering") && !ends("ForMultipleChoice");
}

}  // namespace comera::io
