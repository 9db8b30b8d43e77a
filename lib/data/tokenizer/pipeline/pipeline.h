// The tokenizer that a tokenizer.json of Hugging Face's `tokenizers` describes: normaliser, splits into words, model,
// special pieces around texts, decoder. Ids, offsets and decoded texts equal those of that library.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/data/tokenizer/pipeline/added_tokens.h"
#include "lib/data/tokenizer/pipeline/decoder.h"
#include "lib/data/tokenizer/pipeline/frame.h"
#include "lib/data/tokenizer/pipeline/splitter.h"
#include "lib/data/tokenizer/pipeline/word_model.h"
#include "lib/data/tokenizer/tokenizer.h"

namespace comera::data {

// Files of a folder with a tokenizer.json, byte by byte; empty if it has none.
struct PipelineFiles {
  std::string tokenizer = {};      // tokenizer.json
  std::string config = {};         // tokenizer_config.json
  std::string special_map = {};    // special_tokens_map.json
  std::string chat_template = {};  // chat_template.jinja
};

class Pipeline final : public Tokenizer {
 public:
  // `name` (path of tokenizer.json) is for messages. InputError names what is malformed or not known.
  Pipeline(PipelineFiles files, std::string name);

  using Tokenizer::encode;
  void encode(std::string_view text, Ids& ids) const override { run(text, ids, nullptr); }
  // Also appends the bytes of `text` that each token came from.
  void encode(std::string_view text, Ids& ids, std::vector<Span>& offsets) const { run(text, ids, &offsets); }
  Cut cut(std::string_view text) const override;
  std::string decode(const Ids& ids, bool keep_special) const override;

  const Specials& specials() const override { return specials_; }
  std::int64_t vocab_size() const override { return size_; }
  bool has(std::int32_t id) const override { return added_.find(id) || model_->vocabulary().has(id); }
  std::string piece(std::int32_t id) const override;
  const std::string& hash() const override { return hash_; }
  const std::string& source() const override { return name_; }
  void save(const Folder& folder) const override;

 private:
  void run(std::string_view text, Ids& ids, std::vector<Span>* offsets) const;
  void encode_words(AlignedText text, Ids& ids, std::vector<Span>* offsets, std::vector<Token>& tokens) const;
  void trim(std::string_view text, const Ids& ids, std::size_t before, std::vector<Span>& offsets) const;
  void settle_specials(const JsonNode& root);
  std::int32_t id_of(const std::string& piece) const;

  PipelineFiles files_;
  std::string name_, hash_;
  Normalizer normalizer_;
  Splitter splitter_;
  std::unique_ptr<WordModel> model_;
  AddedTokens added_;
  Frame frame_;
  Decoder decoder_;
  Specials specials_;
  std::int64_t size_ = 0;
};

// The tokenizer.json that gpt2's vocab.json and merges.txt stand for; with the pieces <s> and </s>, the one of RoBERTa.
std::string tokenizer_json_of_merges(const std::string& vocab_path, const std::string& merges_path);

}  // namespace comera::data
