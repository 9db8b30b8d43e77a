#include "lib/io/gguf/gguf_tokenizer.h"

#include <algorithm>

#include "lib/core/error.h"
#include "lib/core/terminal/log.h"
#include "lib/io/gguf/gguf_splits.h"
#include "lib/io/sentencepiece_message.h"
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
  constexpr const char* key = "tokenizer.ggml.pre";
  if (!file.has(key))
    fail_input(
        "{}: key {} is missing, so it is unknown how texts are split ({} are read); name a tokenizer of the "
        "model with --tokenizer",
        file.path(), key, known_splits());
  const std::string& kind = file.text(key);
  if (std::optional<WordSplit> split = split_named(kind)) return *std::move(split);
  fail_input(
      "{}: key {} is \"{}\"; the ways to split texts that are read are {}; name a tokenizer of the model with "
      "--tokenizer",
      file.path(), key, printable(kind), known_splits());
}

// The piece before every text, if the file wants one. Without the key llama.cpp puts it before texts of llama-bpe.
Json frame_of(const GgufFile& file, const std::string& split) {
  constexpr const char* end_key = "tokenizer.ggml.add_eos_token";
  if (file.has(end_key) && file.flag(end_key))
    fail_input(
        "{}: key {} is true, and false alone is read with byte-level BPE; name a tokenizer of the model with "
        "--tokenizer",
        file.path(), end_key);
  const std::string id_key = gguf_token_key("bos");
  constexpr const char* key = "tokenizer.ggml.add_bos_token";
  if (!file.has(id_key) || !(file.has(key) ? file.flag(key) : split == "llama-bpe")) return nullptr;
  const std::int64_t id = file.integer(id_key);
  return template_processing({token_of(file, id), id});
}

// A key of one value per token.
template <class T>
void require_per_token(const GgufFile& file, const std::vector<T>& values, const char* what) {
  const std::size_t tokens = file.texts("tokenizer.ggml.tokens").size();
  if (values.size() != tokens)
    fail_input("{}: {} tokens have {} {}; the file is damaged", file.path(), tokens, values.size(), what);
}

// As PyPI's tokenizers reads it.
Json byte_level_bpe(const GgufFile& file) {
  const std::vector<std::string>& tokens = file.texts("tokenizer.ggml.tokens");
  const std::vector<std::int64_t>& types = file.integers("tokenizer.ggml.token_type");
  require_per_token(file, types, "types");
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

// The defaults are those of llama.cpp.
std::string sentencepiece_bpe(const GgufFile& file) {
  const std::vector<std::string>& tokens = file.texts("tokenizer.ggml.tokens");
  const std::vector<std::int64_t>& types = file.integers("tokenizer.ggml.token_type");
  const std::vector<double>& scores = file.reals("tokenizer.ggml.scores");
  require_per_token(file, types, "types");
  require_per_token(file, scores, "scores");
  require_utf8(file, "tokenizer.ggml.tokens");
  SentencePieceFacts facts{.merges_by_score = true};
  constexpr const char* adds_blank = "tokenizer.ggml.add_space_prefix";
  facts.adds_blank = !file.has(adds_blank) || file.flag(adds_blank);
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    if (types[id] < 1 || types[id] > 6)
      fail_input("{}: token {} is of type {}; 1 to 6 are known", file.path(), id, types[id]);
    facts.pieces.push_back({tokens[id], static_cast<float>(scores[id]), static_cast<PieceType>(types[id])});
  }
  const auto around = [&](const char* name, std::int64_t usual) {
    const std::string key = gguf_token_key(name);
    return token_of(file, file.has(key) ? file.integer(key) : usual);
  };
  facts.begin = around("bos", 1);
  facts.end = around("eos", 2);
  return sentencepiece_model(facts);
}

Json config_of(const GgufFile& file, bool is_sentencepiece) {
  Json config{{"tokenizer_class", is_sentencepiece ? "LlamaTokenizer" : "PreTrainedTokenizerFast"},
              {"model_max_length", file.integer(gguf_key(file, "context_length"))},
              {"clean_up_tokenization_spaces", false}};
  if (!is_sentencepiece) config["add_prefix_space"] = false;
  for (const char* name : {"add_bos_token", "add_eos_token"}) {
    const std::string key = fmt::format("tokenizer.ggml.{}", name);
    if (is_sentencepiece && file.has(key)) config[name] = file.flag(key);
  }
  for (std::size_t i = 0; i < std::size(special_names); ++i)
    if (file.has(gguf_token_key(special_names[i])))
      config[special_tokens[i]] = token_of(file, file.integer(gguf_token_key(special_names[i])));
  if (file.has("tokenizer.chat_template")) config["chat_template"] = file.text("tokenizer.chat_template");
  return config;
}

}  // namespace

std::string gguf_key(const GgufFile& file, const char* name) {
  return fmt::format("{}.{}", file.text("general.architecture"), name);
}
std::string gguf_token_key(const char* name) { return fmt::format("tokenizer.ggml.{}_token_id", name); }

GgufTokenizerFiles gguf_tokenizer_files(const GgufFile& file) {
  const std::string& kind = file.text("tokenizer.ggml.model");
  if (kind == "gpt2") return {"tokenizer.json", json_text(byte_level_bpe(file)), json_text(config_of(file, false))};
  if (kind == "llama") return {"tokenizer.model", sentencepiece_bpe(file), json_text(config_of(file, true))};
  fail_input(
      "{}: its tokenizer is of kind \"{}\"; byte-level BPE (gpt2) and SentencePiece's BPE (llama) are read; name "
      "another one with --tokenizer",
      file.path(), printable(kind));
}

}  // namespace comera::io
