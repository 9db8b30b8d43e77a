#include "lib/io/gguf/gguf_splits.h"

#include <vector>

#include "lib/core/error.h"

namespace comera::io {
namespace {

Json byte_level(bool splits) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", splits}};
}

// Words with an apostrophe's rest, numbers, other signs, and white space.
Json by_pattern(const char* numbers) {
  const std::string pattern = fmt::format(
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|{}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
      numbers);
  const Json split{
      {"type", "Split"}, {"pattern", Json{{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}};
  return {{"type", "Sequence"}, {"pretokenizers", Json::array({split, byte_level(false)})}};
}

std::vector<WordSplit> all_splits() {
  const Json digits{{"type", "Digits"}, {"individual_digits", true}};
  return {{"gpt-2", byte_level(true), nullptr},
          {"smollm", {{"type", "Sequence"}, {"pretokenizers", Json::array({digits, byte_level(true)})}}, nullptr},
          {"llama-bpe", by_pattern(R"(\p{N}{1,3})"), nullptr, true},
          {"qwen2", by_pattern(R"(\p{N})"), Json{{"type", "NFC"}}}};
}

// Without what changes offsets alone, and in one layout.
Json canonical(const Json& pre_tokenizer) {
  Json parts = Json::array();
  if (!pre_tokenizer.is_object()) return parts;
  if (pre_tokenizer.value("type", "") == "Sequence" && pre_tokenizer.contains("pretokenizers"))
    parts = pre_tokenizer["pretokenizers"];
  else
    parts.push_back(pre_tokenizer);
  for (Json& part : parts) {
    if (!part.is_object()) continue;
    part.erase("trim_offsets");
    if (part.value("type", "") == "ByteLevel" && !part.contains("use_regex")) part["use_regex"] = true;
    part = with_sorted_keys(part);
  }
  return parts;
}

}  // namespace

std::optional<WordSplit> split_named(std::string_view name) {
  for (WordSplit& split : all_splits())
    if (name == split.name) return std::move(split);
  return std::nullopt;
}

std::optional<WordSplit> split_of(const Json& tokenizer) {
  const auto part = [&](const char* name) { return tokenizer.contains(name) ? tokenizer[name] : Json(); };
  const Json model = part("model");
  const bool ignores = model.is_object() && model.contains("ignore_merges") && model["ignore_merges"] == true;
  for (WordSplit& split : all_splits())
    if (canonical(part("pre_tokenizer")) == canonical(split.pre_tokenizer) && part("normalizer") == split.normalizer &&
        ignores == split.ignore_merges)
      return std::move(split);
  return std::nullopt;
}

std::string known_splits() {
  std::string names;
  for (const WordSplit& split : all_splits()) names += (names.empty() ? "" : ", ") + std::string(split.name);
  return names;
}

}  // namespace comera::io
