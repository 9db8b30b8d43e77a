#include "lib/data/tokenizer/pipeline/pipeline.h"

#include <algorithm>

#include "lib/core/files/file.h"
#include "lib/core/hash.h"
#include "lib/data/tokenizer/clean_cut.h"
#include "lib/data/tokenizer/pipeline/byte_characters.h"
#include "lib/data/tokenizer/pipeline/normal_forms.h"
#include "lib/data/tokenizer/unicode.h"

namespace comera::data {
namespace {

// The bytes `part` of a text.
AlignedText slice(AlignedText& text, Span part) {
  if (part.begin == 0 && part.end == text.text.size()) return std::move(text);
  AlignedText result;
  result.text = text.text.substr(part.begin, part.size());
  result.follows = text.follows;
  if (text.follows)
    result.from.assign(text.from.begin() + static_cast<std::ptrdiff_t>(part.begin),
                       text.from.begin() + static_cast<std::ptrdiff_t>(part.end));
  // Without origins it only counts whether the part begins the text.
  result.original = text.follows      ? text.origin_of(part)
                    : part.begin == 0 ? text.original
                                      : Span{text.original.begin + part.begin, text.original.end};
  return result;
}

bool is_blank_character(std::uint32_t code_point) {
  return byte_of_character(code_point) == ' ' || is_white_space(code_point);
}

// A piece of tokenizer_config.json: a text, or an object with its content.
std::string content_of(const JsonNode& node) {
  return node.json().is_object() ? node.at("content").text() : node.text();
}

}  // namespace

Pipeline::Pipeline(PipelineFiles files, std::string name)
    : files_(std::move(files)), name_(std::move(name)), hash_(hash_text(files_.tokenizer)) {
  const io::Json json = io::parse_json(files_.tokenizer, name_);
  const JsonNode root(json, "[tokenizer] " + name_);
  model_ = read_word_model(root.at("model"));
  if (const auto node = root.find("normalizer")) normalizer_ = read_normalizer(*node);
  if (const auto node = root.find("pre_tokenizer")) splitter_ = read_splitter(*node);
  if (const auto node = root.find("post_processor")) frame_ = read_frame(*node);
  if (const auto node = root.find("decoder")) decoder_ = read_decoder(*node);
  if (const auto node = root.find("added_tokens")) added_ = AddedTokens(*node, model_->vocabulary(), normalizer_);
  size_ = model_->vocabulary().size();
  for (const AddedToken& token : added_.all()) size_ = std::max<std::int64_t>(size_, token.id + 1);
  settle_specials(root);
}

std::int32_t Pipeline::id_of(const std::string& piece) const {
  if (piece.empty()) return -1;
  const AddedToken* token = added_.find(piece);
  return token ? token->id : model_->vocabulary().find(piece);
}

void Pipeline::settle_specials(const JsonNode& root) {
  const auto from_file = [&](const std::string& bytes, const char* file, const char* key) -> std::int32_t {
    if (bytes.empty()) return -1;
    const io::Json json = io::parse_json(bytes, file);
    const auto node = JsonNode(json, fmt::format("[tokenizer] {} beside {}", file, name_)).find(key);
    return node && !node->json().is_boolean() ? id_of(content_of(*node)) : -1;
  };
  const auto find = [&](const char* key, std::initializer_list<const char*> usual) {
    for (const auto& [bytes, file] : {std::pair(&files_.config, "tokenizer_config.json"),
                                      std::pair(&files_.special_map, "special_tokens_map.json")})
      if (const std::int32_t id = from_file(*bytes, file, key); id >= 0) return id;
    for (const char* piece : usual)
      if (const std::int32_t id = id_of(piece); id >= 0) return id;
    return -1;
  };
  if (frame_.before.size() > 1 || frame_.after.size() > 1)
    root.fail("post_processor puts {} pieces before a text and {} behind it; at most one of each is supported",
              frame_.before.size(), frame_.after.size());
  for (const std::vector<std::int32_t>* ids : {&frame_.before, &frame_.after})
    for (const std::int32_t id : *ids)
      if (id >= size_) root.fail("post_processor: id {} is outside the vocabulary of {} pieces", id, size_);
  specials_.pad = find("pad_token", {"[PAD]", "<pad>"});
  specials_.mask = find("mask_token", {"[MASK]", "<mask>"});
  specials_.unknown = model_->unknown() >= 0 ? model_->unknown() : find("unk_token", {});
  specials_.framed = true;
  specials_.cls = specials_.begin = frame_.before.empty() ? -1 : frame_.before[0];
  specials_.sep = frame_.after.empty() ? -1 : frame_.after[0];
  specials_.end = specials_.sep >= 0 ? specials_.sep : find("eos_token", {"<|endoftext|>", "</s>"});
  specials_.separators = frame_.between ? static_cast<std::int32_t>(frame_.between->size()) : 0;
  specials_.second_type = frame_.second_type;
}

void Pipeline::encode_words(AlignedText text, Ids& ids, std::vector<Span>* offsets, std::vector<Token>& tokens) const {
  Words words{.text = std::move(text)};
  if (!words.text.text.empty()) words.parts.push_back({0, words.text.text.size()});
  if (splitter_) splitter_(words);
  for (const Span& word : words.parts) {
    if (word.size() == 0) continue;
    tokens.clear();
    model_->encode(std::string_view(words.text.text).substr(word.begin, word.size()), tokens);
    for (const Token& token : tokens) {
      ids.push_back(token.id);
      if (offsets)
        offsets->push_back(words.text.origin_of({word.begin + token.span.begin, word.begin + token.span.end}));
    }
  }
}

void Pipeline::run(std::string_view text, Ids& ids, std::vector<Span>* offsets) const {
  const std::size_t before = offsets ? offsets->size() : 0;
  std::vector<Token> tokens;
  for (const TextPart& part : added_.split_original(text)) {
    if (part.id >= 0) {
      ids.push_back(part.id);
      if (offsets) offsets->push_back(part.span);
      continue;
    }
    AlignedText normal(text, part.span, offsets != nullptr);
    if (normalizer_) normalizer_(normal);
    for (const TextPart& inner : added_.split_normalised(normal.text)) {
      if (inner.id < 0) {
        encode_words(slice(normal, inner.span), ids, offsets, tokens);
        continue;
      }
      ids.push_back(inner.id);
      if (offsets) offsets->push_back(normal.origin_of(inner.span));
    }
  }
  if (offsets && frame_.trims_offsets) trim(text, ids, before, *offsets);
}

void Pipeline::trim(std::string_view text, const Ids& ids, std::size_t before, std::vector<Span>& offsets) const {
  for (std::size_t i = before; i < offsets.size(); ++i) {
    const std::string shown = piece(ids[ids.size() - offsets.size() + i]);
    std::size_t leading = 0, trailing = 0;
    bool leads = true;
    for (std::size_t at = 0; at < shown.size();) {
      const bool blank = is_blank_character(next_code_point(shown, at));
      leads = leads && blank;
      leading += leads;
      trailing = blank ? trailing + 1 : 0;
    }
    Span& span = offsets[i];
    const bool may_be_added = frame_.adds_blank && (i == before || span.begin == 0);
    for (; leading > 0 && !may_be_added && span.begin < span.end; --leading) next_code_point(text, span.begin);
    for (; trailing > 0 && span.end > span.begin; --trailing) span.end = character_before(text, span.end);
  }
}

Cut Pipeline::cut(std::string_view text) const { return clean_cut(*this, text); }

std::string Pipeline::piece(std::int32_t id) const {
  if (const AddedToken* token = added_.find(id)) return token->shown;
  if (!model_->vocabulary().has(id))
    fail_input("[tokenizer] {}: id {} is outside the vocabulary of {} entries", name_, id, size_);
  return model_->vocabulary().piece(id);
}

std::string Pipeline::decode(const Ids& ids, bool keep_special) const {
  std::vector<std::string> pieces;
  for (const std::int32_t id : ids) {
    const AddedToken* token = added_.find(id);
    if (token && token->special && !keep_special) continue;
    pieces.push_back(piece(id));
  }
  std::string text;
  if (decoder_) decoder_(pieces);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (!decoder_ && i > 0) text += ' ';
    text += pieces[i];
  }
  return text;
}

void Pipeline::save(const Folder& folder) const {
  const std::pair<const char*, const std::string*> files[] = {{"tokenizer.json", &files_.tokenizer},
                                                              {"tokenizer_config.json", &files_.config},
                                                              {"special_tokens_map.json", &files_.special_map},
                                                              {"chat_template.jinja", &files_.chat_template}};
  for (const auto& [name, bytes] : files)
    if (!bytes->empty()) write_file_atomic(folder, name, *bytes);
}

}  // namespace comera::data
