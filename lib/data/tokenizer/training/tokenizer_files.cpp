#include "lib/data/tokenizer/training/tokenizer_files.h"

#include <fmt/core.h>

#include "lib/core/error.h"
#include "lib/io/sentencepiece_message.h"
#include "lib/io/template_processing.h"

namespace comera::data {
namespace {

using io::Json;

constexpr const char* blank_mark = "\xE2\x96\x81";  // U+2581

std::string quoted(const std::string& text) { return Json(text).dump(); }

std::string base64_of(std::string_view bytes) {
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    std::uint32_t bits = 0;
    const std::size_t held = std::min<std::size_t>(3, bytes.size() - at);
    for (std::size_t i = 0; i < 3; ++i) bits = bits << 8 | (i < held ? static_cast<unsigned char>(bytes[at + i]) : 0U);
    for (std::size_t i = 0; i < 4; ++i) text += i <= held ? digits[bits >> (18 - 6 * i) & 63] : '=';
  }
  return text;
}

Json added_tokens(const std::vector<std::string>& specials) {
  Json added = Json::array();
  for (std::size_t id = 0; id < specials.size(); ++id)
    added.push_back({{"id", id},
                     {"content", specials[id]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  return added;
}

// The places of special_pieces(): 2 begins a text, 3 ends it.
Json frame_json(const std::vector<std::string>& specials, TextFrame frame) {
  const io::FramePiece begin{specials[2], 2};
  if (frame == TextFrame::decoder) return io::template_processing(begin);
  return io::template_processing(begin, io::FramePiece{specials[3], 3});
}

// The parts of a tokenizer.json; null: none.
struct Parts {
  Json added, normalizer, pre_tokenizer, post_processor, decoder;
};

// The model is given as text, because a JSON object of this size is slow to make.
std::string whole_file(const Parts& parts, const std::string& model) {
  return fmt::format(
      "{{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n  \"added_tokens\": {},\n"
      "  \"normalizer\": {},\n  \"pre_tokenizer\": {},\n  \"post_processor\": {},\n  \"decoder\": {},\n"
      "  \"model\": {{\n{}\n  }}\n}}\n",
      parts.added.dump(), parts.normalizer.dump(), parts.pre_tokenizer.dump(), parts.post_processor.dump(),
      parts.decoder.dump(), model);
}

std::string vocabulary_text(const std::vector<std::string>& pieces) {
  std::string text;
  for (std::size_t id = 0; id < pieces.size(); ++id)
    text += fmt::format("{}\n      {}: {}", id == 0 ? "" : ",", quoted(pieces[id]), id);
  return text;
}

}  // namespace

std::vector<std::string> special_pieces(TextFrame frame) {
  if (frame == TextFrame::encoder) return {"<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"};
  return {"<pad>", "<unk>", "<s>", "</s>"};
}

Json byte_level_json() {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
}

std::string bpe_tokenizer_json(const BpeVocabulary& vocabulary, TextFrame frame) {
  std::string merges;
  for (const auto& [left, right] : vocabulary.merges)
    merges += fmt::format("{}\n      [{}, {}]", merges.empty() ? "" : ",", quoted(left), quoted(right));
  const std::vector<std::string> specials = special_pieces(frame);
  return whole_file(
      {added_tokens(specials), nullptr, byte_level_json(), frame_json(specials, frame), byte_level_json()},
      fmt::format("    \"type\": \"BPE\",\n    \"dropout\": null,\n    \"unk_token\": null,\n"
                  "    \"continuing_subword_prefix\": null,\n    \"end_of_word_suffix\": null,\n"
                  "    \"fuse_unk\": false,\n    \"byte_fallback\": false,\n    \"ignore_merges\": false,\n"
                  "    \"vocab\": {{{}\n    }},\n    \"merges\": [{}\n    ]",
                  vocabulary_text(vocabulary.pieces), merges));
}

std::string wordpiece_tokenizer_json(std::string_view vocab, LetterCase letter_case) {
  std::vector<std::string> pieces;
  for (std::size_t at = 0; at < vocab.size();) {
    const std::size_t end = std::min(vocab.find('\n', at), vocab.size());
    pieces.emplace_back(vocab.substr(at, end - at));
    at = end + 1;
  }
  const bool lower = letter_case != LetterCase::cased;
  const std::vector<std::string> specials(pieces.begin(), pieces.begin() + 5);
  const Json normalizer = {{"type", "BertNormalizer"},
                           {"clean_text", true},
                           {"handle_chinese_chars", true},
                           {"strip_accents", lower},
                           {"lowercase", lower}};
  return whole_file({added_tokens(specials),
                     normalizer,
                     {{"type", "BertPreTokenizer"}},
                     frame_json(specials, TextFrame::encoder),
                     {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}},
                    fmt::format("    \"type\": \"WordPiece\",\n    \"unk_token\": \"[UNK]\",\n"
                                "    \"continuing_subword_prefix\": \"##\",\n    \"max_input_chars_per_word\": 100,\n"
                                "    \"vocab\": {{{}\n    }}",
                                vocabulary_text(pieces)));
}

std::string unigram_tokenizer_json(std::string_view model, TextFrame frame) {
  const io::SentencePieceFacts facts = io::read_sentencepiece_facts(model, "the new model");
  std::string pieces;
  for (const io::SentencePieceEntry& entry : facts.pieces)
    pieces += fmt::format("{}\n      [{}, {}]", pieces.empty() ? "" : ",", quoted(entry.text),
                          Json(static_cast<double>(entry.score)).dump());
  Json steps = Json::array();
  steps.push_back({{"type", "Precompiled"}, {"precompiled_charsmap", base64_of(facts.charsmap)}});
  steps.push_back({{"type", "Strip"}, {"strip_left", true}, {"strip_right", true}});
  steps.push_back({{"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", " "}});
  const Json metaspace = {
      {"type", "Metaspace"}, {"replacement", blank_mark}, {"prepend_scheme", "always"}, {"split", true}};
  const std::vector<std::string> specials = special_pieces(frame);
  return whole_file({added_tokens(specials),
                     {{"type", "Sequence"}, {"normalizers", steps}},
                     metaspace,
                     frame_json(specials, frame),
                     metaspace},
                    fmt::format("    \"type\": \"Unigram\",\n    \"unk_id\": 1,\n    \"byte_fallback\": false,\n"
                                "    \"vocab\": [{}\n    ]",
                                pieces));
}

std::string trained_tokenizer_config(TextFrame frame) {
  Json config{{"tokenizer_class", "PreTrainedTokenizerFast"},
              {"clean_up_tokenization_spaces", false},
              {"pad_token", "<pad>"},
              {"unk_token", "<unk>"}};
  if (frame == TextFrame::encoder) {
    config["cls_token"] = "[CLS]";
    config["sep_token"] = "[SEP]";
    config["mask_token"] = "[MASK]";
  } else {
    config["bos_token"] = "<s>";
    config["eos_token"] = "</s>";
  }
  return io::json_text(config);
}

}  // namespace comera::data
