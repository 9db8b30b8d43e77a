#include "lib/export/gguf/gguf_tokens.h"

#include <algorithm>
#include <optional>

#include "lib/core/error.h"
#include "lib/core/terminal/log.h"
#include "lib/data/tokenizer/tokenizer.h"
#include "lib/io/gguf/gguf_splits.h"
#include "lib/io/json_file.h"
#include "lib/io/sentencepiece_message.h"

namespace comera::exporting {
namespace {

using io::PieceType;

struct Pieces {
  std::vector<std::string> texts;
  std::vector<std::int32_t> types;  // numbers of PieceType
  std::vector<float> scores;        // SentencePiece alone

  // Makes room for `id`, with unused pieces between.
  void reach(std::size_t id) {
    for (std::size_t i = texts.size(); i <= id; ++i) {
      texts.push_back(fmt::format("[PAD{}]", i));
      types.push_back(static_cast<std::int32_t>(PieceType::unused));
    }
  }
  void put(std::size_t id, const std::string& text, PieceType type) {
    reach(id);
    texts[id] = text;
    types[id] = static_cast<std::int32_t>(type);
  }
};

class Tokens {
 public:
  Tokens(const io::ModelFolder& folder, std::int64_t rows) : folder_(folder), rows_(rows) {
    if (path_exists(path("tokenizer_config.json")))
      config_ = io::read_json(path("tokenizer_config.json"), io::largest_tokenizer_config);
  }

  std::vector<io::GgufKey> keys() {
    if (path_exists(path("tokenizer.json"))) {
      from_json();
    } else if (path_exists(path("tokenizer.model"))) {
      from_sentencepiece();
    } else {
      fail_input("{}: has no tokenizer.json and no tokenizer.model", folder_.path());
    }
    add_specials();
    add_template();
    return std::move(keys_);
  }

 private:
  std::string path(const char* name) const { return join_path(folder_.place_in(folder_.path()), name); }
  void add(const char* name, io::GgufWritten value) {
    keys_.push_back({fmt::format("tokenizer.ggml.{}", name), std::move(value)});
  }

  void add_pieces(Pieces& pieces, const std::string& file) {
    if (std::ssize(pieces.texts) > rows_)
      fail_input("{}: has {} pieces, and the word table has {} rows; this is the tokenizer of another model", file,
                 pieces.texts.size(), rows_);
    pieces.reach(static_cast<std::size_t>(rows_ - 1));
    texts_ = pieces.texts;
    add("tokens", std::move(pieces.texts));
    add("token_type", std::move(pieces.types));
  }

  void from_json() {
    const std::string file = path("tokenizer.json");
    const auto tokenizer = data::load_tokenizer(file);  // checks the whole file
    const io::Json json = io::read_json(file, data::largest_tokenizer_json);
    const io::Json& model = json.at("model");
    if (model.value("type", "BPE") != "BPE")
      fail_input("{}: is of type {}; llama.cpp's llama models use byte-level BPE or SentencePiece", file,
                 printable(model["type"].get<std::string>()));
    const std::optional<io::WordSplit> split = io::split_of(json);
    if (!split)
      fail_input("{}: splits or normalises texts in a way that has no name here; {} are known", file,
                 io::known_splits());
    add("model", "gpt2");
    add("pre", split->name);
    Pieces pieces;
    for (const auto& [text, id] : model.at("vocab").items()) pieces.put(id.get<std::size_t>(), text, PieceType::normal);
    if (json.contains("added_tokens"))
      for (const io::Json& token : json["added_tokens"])
        pieces.put(token.at("id").get<std::size_t>(), token.at("content").get<std::string>(),
                   token.value("special", false) ? PieceType::control : PieceType::user_defined);
    add_pieces(pieces, file);
    std::vector<std::string> merges;
    for (const io::Json& merge : model.at("merges"))
      merges.push_back(merge.is_string() ? merge.get<std::string>()
                                         : merge.at(0).get<std::string>() + " " + merge.at(1).get<std::string>());
    add("merges", std::move(merges));
    const data::Specials& specials = tokenizer->specials();
    add("add_bos_token", specials.framed && specials.begin >= 0);
  }

  void from_sentencepiece() {
    const std::string file = path("tokenizer.model");
    const std::string model = read_file(file);
    data::parse_sentencepiece(model, file);  // checks the whole file
    const io::SentencePieceFacts facts = io::read_sentencepiece_facts(model, file);
    if (!facts.merges_by_score)
      fail_input("{}: is a unigram model; llama.cpp's llama models use SentencePiece's BPE", file);
    add("model", "llama");
    add("pre", "default");
    Pieces pieces;
    for (std::size_t id = 0; id < facts.pieces.size(); ++id) {
      pieces.put(id, facts.pieces[id].text, facts.pieces[id].type);
      pieces.scores.push_back(facts.pieces[id].score);
    }
    std::vector<float> scores = pieces.scores;
    add_pieces(pieces, file);
    scores.resize(static_cast<std::size_t>(rows_), -1e4f);
    add("scores", std::move(scores));
    add("add_bos_token", config_.value("add_bos_token", true));
    add("add_eos_token", config_.value("add_eos_token", false));
    add("add_space_prefix", facts.adds_blank);
  }

  // An id of config.json, or the id of a token that tokenizer_config.json names.
  std::optional<std::uint32_t> special(const char* id_key, const char* token_key) const {
    const io::Json& model = folder_.config();
    if (model.contains(id_key)) {
      const io::Json& value = model[id_key];
      const io::Json& first = value.is_array() && !value.empty() ? value[0] : value;
      if (first.is_number_unsigned() && first.get<std::uint64_t>() < texts_.size()) return first.get<std::uint32_t>();
    }
    if (!config_.contains(token_key)) return std::nullopt;
    const io::Json& value = config_[token_key];
    const io::Json& text = value.is_object() && value.contains("content") ? value["content"] : value;
    if (!text.is_string()) return std::nullopt;
    const auto found = std::find(texts_.begin(), texts_.end(), text.get<std::string>());
    if (found == texts_.end()) return std::nullopt;
    return static_cast<std::uint32_t>(found - texts_.begin());
  }

  void add_specials() {
    for (const auto& [name, token] :
         {std::pair{"bos", "bos_token"}, {"eos", "eos_token"}, {"unknown", "unk_token"}, {"padding", "pad_token"}})
      if (const auto id = special(fmt::format("{}_id", token).c_str(), token))
        add(fmt::format("{}_token_id", name).c_str(), *id);
  }

  void add_template() {
    if (path_exists(path("chat_template.jinja")))
      keys_.push_back(
          {"tokenizer.chat_template", read_file(path("chat_template.jinja"), io::largest_tokenizer_config)});
    else if (config_.contains("chat_template") && config_["chat_template"].is_string())
      keys_.push_back({"tokenizer.chat_template", config_["chat_template"].get<std::string>()});
  }

  const io::ModelFolder& folder_;
  std::int64_t rows_;
  io::Json config_ = io::Json::object();
  std::vector<std::string> texts_;  // by id
  std::vector<io::GgufKey> keys_;
};

}  // namespace

std::vector<io::GgufKey> gguf_tokens(const io::ModelFolder& folder, std::int64_t rows) {
  try {
    return Tokens(folder, rows).keys();
  } catch (const io::JsonError& error) {
    fail_input("{}: a file of its tokenizer is damaged ({})", folder.path(), error.what());
  }
}

std::vector<io::GgufKey> gguf_without_tokens() { return {{"tokenizer.ggml.model", std::string("no_vocab")}}; }

}  // namespace comera::exporting
