#include "lib/io/gguf/gguf_tokenizer.h"

#include <algorithm>

#include "lib/core/error.h"
#include "lib/core/terminal/log.h"
#include "lib/io/gguf/gguf_splits.h"
#include "lib/io/template_processing.h"

namespace comera::io {
namespace {

constexpr const char* special_names[] = {"bos", "eos", "unknown", "padding"};
constexpr const char* special_tokens[] = {"bos_token", "eos_token", "unk_token", "pad_token"};
enum TokenType { control = 3, user_defined = 4 };

std::string token_of(const GgufFile& file, std::int64_t id) {
  const std::vector<std::string>& tokens = file.texts("tokenizer.ggml.tokens");
  if (id < 0 || id >= std::ssize(tokens))
    fail_input("{}: a special token has id {}, and the vocabulary has {} tokens", file.path(), id, tokens.size());
  return tokens[static_cast<std::size_t>(id)];
}

// JSON writers replace bytes that are no UTF-8, and two tokens could become equal.
void require_utf8(const GgufFile& file, const char* key) {
  const auto is_utf8 = [](const std::string& text) {
    try {
      Json(text).dump();
      return true;
    } catch (const JsonError&) {
      return false;
    }
  };
  const std::vector<std::string>& texts = file.texts(key);
  const auto bad = std::find_if_not(texts.begin(), texts.end(), is_utf8);
  if (bad != texts.end())
    fail_input("{}: item {} of {} is no UTF-8 text; the file is damaged", file.path(), bad - texts.begin(), key);
}

WordSplit split_of(const GgufFile& file) {
  const std::string kind = file.has("tokenizer.ggml.pre") ? file.text("tokenizer.ggml.pre") : "default";
  if (std::optional<WordSplit> split = split_named(kind)) return *std::move(split);
  fail_input("{}: texts are split as \"{}\"; {} are known", file.path(), printable(kind), known_splits());
}

// The piece before every text, if the file wants one. Without the key llama.cpp puts it before texts of llama-bpe.
Json frame_of(const GgufFile& file, const std::string& split) {
  const std::string id_key = gguf_token_key("bos");
  constexpr const char* key = "tokenizer.ggml.add_bos_token";
  if (!file.has(id_key) || !(file.has(key) ? file.flag(key) : split == "llama-bpe")) return nullptr;
  const std::int64_t id = file.integer(id_key);
  return template_processing({token_of(file, id), id});
}

}  // namespace

std::string gguf_key(const GgufFile& file, const char* name) {
  return fmt::format("{}.{}", file.text("general.architecture"), name);
}
std::string gguf_token_key(const char* name) { return fmt::format("tokenizer.ggml.{}_token_id", name); }

Json gguf_tokenizer(const GgufFile& file) {
  if (file.text("tokenizer.ggml.model") != "gpt2")
    fail_input("{}: its tokenizer is of kind \"{}\"; byte-level BPE (gpt2) is read", file.path(),
               printable(file.text("tokenizer.ggml.model")));
  const std::vector<std::string>& tokens = file.texts("tokenizer.ggml.tokens");
  const std::vector<std::int64_t>& types = file.integers("tokenizer.ggml.token_type");
  if (types.size() != tokens.size())
    fail_input("{}: {} tokens have {} types; the file is damaged", file.path(), tokens.size(), types.size());
  require_utf8(file, "tokenizer.ggml.tokens");
  require_utf8(file, "tokenizer.ggml.merges");
  Json vocabulary = Json::object(), added = Json::array();
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    vocabulary[tokens[id]] = id;
    if (types[id] != control && types[id] != user_defined) continue;
    added.push_back({{"id", id},
                     {"content", tokens[id]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", types[id] == control}});
  }
  if (vocabulary.size() != tokens.size())
    fail_input("{}: two tokens have the same text; the file is damaged", file.path());
  const WordSplit split = split_of(file);
  return {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", added},
      {"normalizer", split.normalizer},
      {"pre_tokenizer", split.pre_tokenizer},
      {"post_processor", frame_of(file, split.name)},
      {"decoder", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}}},
      {"model",
       {{"type", "BPE"},
        {"dropout", nullptr},
        {"unk_token", nullptr},
        {"continuing_subword_prefix", nullptr},
        {"end_of_word_suffix", nullptr},
        {"fuse_unk", false},
        {"byte_fallback", false},
        {"ignore_merges", split.ignore_merges},
        {"vocab", vocabulary},
        {"merges", file.texts("tokenizer.ggml.merges")}}}};
}

Json gguf_tokenizer_config(const GgufFile& file) {
  Json config{{"tokenizer_class", "PreTrainedTokenizerFast"},
              {"model_max_length", file.integer(gguf_key(file, "context_length"))},
              {"clean_up_tokenization_spaces", false},
              {"add_prefix_space", false}};
  for (std::size_t i = 0; i < std::size(special_names); ++i)
    if (file.has(gguf_token_key(special_names[i])))
      config[special_tokens[i]] = token_of(file, file.integer(gguf_token_key(special_names[i])));
  if (file.has("tokenizer.chat_template")) config["chat_template"] = file.text("tokenizer.chat_template");
  return config;
}

GgufTokenizerFiles gguf_tokenizer_files(const GgufFile& file) {
  return {json_text(gguf_tokenizer(file)), json_text(gguf_tokenizer_config(file))};
}

}  // namespace comera::io
