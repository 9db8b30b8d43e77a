#include "lib/data/tokenizer/tokenizer.h"

#include <filesystem>

#include "lib/core/error.h"
#include "lib/core/files/file.h"
#include "lib/core/hub_hint.h"
#include "lib/data/tokenizer/pipeline/pipeline.h"
#include "lib/data/tokenizer/wordpiece.h"
#include "lib/io/gguf/gguf_tokenizer.h"
#include "lib/io/json_file.h"
#include "lib/io/modules.h"

namespace comera::data {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t largest_sentencepiece = 32 << 20;

BertRules rules_for(bool lower) { return {.lower = lower, .strip_accents = lower, .split_cjk = true}; }

// Reads a boolean of tokenizer_config.json. A null or missing value leaves `value` unchanged.
void read_flag(const io::Json& config, const char* key, const fs::path& path, bool& value) {
  const auto found = config.find(key);
  if (found == config.end() || found->is_null()) return;
  if (!found->is_boolean()) fail_input("[tokenizer] {}: \"{}\" must be true, false or null", path.string(), key);
  value = found->get<bool>();
}

// The Transformer module of sentence-transformers may have its texts in lower case, whatever the tokenizer does.
bool lowers_texts(const fs::path& tokenizer) {
  const fs::path path = tokenizer.parent_path() / "sentence_bert_config.json";
  bool lower = false;
  if (!fs::exists(path)) return lower;
  const io::Json config = io::read_json(path.string(), io::largest_tokenizer_config);
  if (config.is_object()) read_flag(config, "do_lower_case", path, lower);
  return lower;
}

// The same tokenizer.json with lower case before its normalisers, as sentence-transformers puts it there.
std::string with_lower_case(const std::string& text, const std::string& name) {
  io::Json json = io::parse_json(text, name);
  if (!json.is_object()) return text;
  io::Json list = io::Json::array();
  list.push_back({{"type", "Lowercase"}});
  if (const auto found = json.find("normalizer"); found != json.end() && found->is_object()) {
    const auto parts = found->find("normalizers");
    const bool sequence = parts != found->end() && parts->is_array();
    for (const io::Json& one : sequence ? *parts : io::Json::array({*found})) {
      const auto type = one.find("type"), flag = one.find("lowercase");
      const bool lowers = type != one.end() &&
                          (*type == "Lowercase" ||
                           (*type == "BertNormalizer" && flag != one.end() && flag->is_boolean() && flag->get<bool>()));
      if (lowers) return text;
      list.push_back(one);
    }
  }
  json["normalizer"] = {{"type", "Sequence"}, {"normalizers", std::move(list)}};
  return json.dump();
}

BertRules rules_beside(const fs::path& vocab_path, std::string_view vocab, LetterCase letter_case) {
  bool lower = letter_case == LetterCase::automatic ? !looks_cased(vocab) : letter_case == LetterCase::uncased;
  const fs::path path = vocab_path.parent_path() / "tokenizer_config.json";
  if (!fs::exists(path)) return rules_for(lower);
  const io::Json config = io::read_json(path.string(), io::largest_tokenizer_config);
  if (!config.is_object()) fail_input("[tokenizer] {}: is not a JSON object", path.string());
  if (letter_case == LetterCase::automatic) read_flag(config, "do_lower_case", path, lower);
  BertRules rules = rules_for(lower);
  read_flag(config, "strip_accents", path, rules.strip_accents);
  read_flag(config, "tokenize_chinese_chars", path, rules.split_cjk);
  return rules;
}

// True if a tokenizer.json is that of BERT: the vocab.txt beside it has the same ids and is read faster.
bool is_bert(const fs::path& tokenizer_json) {
  const std::string text = read_file(tokenizer_json.string(), largest_tokenizer_json);
  const io::Json json = io::parse_json(text, tokenizer_json.string());
  const auto type = [&](const char* key) {
    const auto part = json.find(key);
    if (part == json.end() || !part->is_object()) return std::string();
    const auto name = part->find("type");
    return name != part->end() && name->is_string() ? name->get<std::string>() : std::string();
  };
  return json.is_object() && type("model") == "WordPiece" && type("normalizer") == "BertNormalizer" &&
         type("pre_tokenizer") == "BertPreTokenizer" && text.find("\"[CLS]\"") != std::string::npos;
}

fs::path file_in(const fs::path& model) {
  const std::string place = io::transformer_place(model.string());
  const fs::path folder = place.empty() ? model : model / place;
  fs::path json = folder / "tokenizer.json";
  const fs::path vocab = folder / "vocab.txt";
  if (fs::exists(json) && !(fs::exists(vocab) && is_bert(json))) return json;
  for (const char* name : {"vocab.txt", "tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "vocab.json"})
    if (fs::exists(folder / name)) return folder / name;
  fail_input(
      "[tokenizer] {}: this folder holds none of tokenizer.json, vocab.txt, tokenizer.model, spiece.model, "
      "sentencepiece.bpe.model, vocab.json; name one with --tokenizer",
      folder.string());
}

// Bytes of a file beside another one; empty if there is none.
std::string read_beside(const fs::path& path, const char* name) {
  const fs::path other = path.parent_path() / name;
  return fs::exists(other) ? read_file(other.string(), io::largest_tokenizer_config) : "";
}

std::shared_ptr<const Tokenizer> load_pipeline(const fs::path& path) {
  PipelineFiles files{.config = read_beside(path, "tokenizer_config.json"),
                      .special_map = read_beside(path, "special_tokens_map.json"),
                      .chat_template = read_beside(path, "chat_template.jinja")};
  const fs::path merges = path.parent_path() / "merges.txt";
  if (path.filename() != "vocab.json")
    files.tokenizer = read_file(path.string(), largest_tokenizer_json);
  else if (fs::exists(merges))
    files.tokenizer = tokenizer_json_of_merges(path.string(), merges.string());
  else
    fail_input("[tokenizer] {}: merges.txt is missing beside it", path.string());
  if (lowers_texts(path)) files.tokenizer = with_lower_case(files.tokenizer, path.string());
  return std::make_shared<Pipeline>(std::move(files), path.string());
}

std::shared_ptr<const Tokenizer> load_gguf_tokenizer(const std::string& path) {
  io::GgufTokenizerFiles files = io::gguf_tokenizer_files(io::GgufFile(path));
  if (files.name == "tokenizer.model") return parse_sentencepiece(files.tokenizer, path);
  return std::make_shared<Pipeline>(PipelineFiles{std::move(files.tokenizer), std::move(files.config), "", ""}, path);
}

}  // namespace

std::shared_ptr<const Tokenizer> parse_wordpiece(std::string_view vocab, const std::string& name,
                                                 LetterCase letter_case) {
  const bool lower = letter_case == LetterCase::automatic ? !looks_cased(vocab) : letter_case == LetterCase::uncased;
  return std::make_shared<WordPiece>(vocab, name, rules_for(lower));
}

std::shared_ptr<const Tokenizer> load_tokenizer(const std::string& given, LetterCase letter_case) {
  if (io::is_gguf_file(given)) return load_gguf_tokenizer(given);
  const fs::path path = is_folder(given) ? file_in(given) : fs::path(given);
  if (!fs::exists(path))
    fail_input(
        "[tokenizer] {}: there is no such file; name a tokenizer.json, a vocab.txt, a SentencePiece .model, a GGUF "
        "file or a "
        "folder with one{}",
        path.string(), hub_hint(path.string()));
  if (path.extension() == ".json") return load_pipeline(path);
  if (path.extension() == ".safetensors")
    fail_input(
        "[tokenizer] {}: a file of weights alone has no tokenizer; give the folder that it lies in, or name a "
        "tokenizer with --tokenizer",
        path.string());
  const std::string bytes =
      read_file(path.string(), path.extension() == ".model" ? largest_sentencepiece : largest_vocabulary);
  const bool lower = letter_case == LetterCase::automatic && lowers_texts(path);
  if (path.extension() == ".model") {
    if (lower)
      fail_input(
          "[tokenizer] {}: sentence_bert_config.json beside it has \"do_lower_case\": true, and SentencePiece models "
          "have no lower case here; write the texts in lower case, and set it to false in a copy of the folder",
          path.string());
    return parse_sentencepiece(bytes, path.string());
  }
  BertRules rules = rules_beside(path, bytes, letter_case);
  rules.lower = rules.lower || lower;
  return std::make_shared<WordPiece>(bytes, path.string(), rules);
}

void Tokenizer::encode_start(std::string_view text, std::size_t enough, Ids& ids) const {
  constexpr std::size_t part = longest_part / 4;
  const std::size_t before = ids.size();
  for (; text.size() > part && ids.size() - before < enough;) {
    const Cut place = cut(whole_characters(text, part));
    encode(text.substr(0, place.end), ids);
    text.remove_prefix(place.next);
  }
  if (ids.size() - before < enough) encode(text, ids);
}

void require_specials(const Tokenizer& tokenizer, bool needs_mask) {
  const Specials& specials = tokenizer.specials();
  const auto require = [&](std::int32_t id, const char* piece, const char* use) {
    if (id < 0) fail_input("[tokenizer] {}: holds no {}, which {}", tokenizer.source(), piece, use);
  };
  require(specials.cls, "[CLS]", "every sequence begins with");
  require(specials.sep, "[SEP]", "every text ends with");
  if (needs_mask) require(specials.mask, "[MASK]", "the mlm task puts in place of the tokens to predict");
}

}  // namespace comera::data
