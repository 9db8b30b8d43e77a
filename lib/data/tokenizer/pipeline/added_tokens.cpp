#include "lib/data/tokenizer/pipeline/added_tokens.h"

#include <utf8proc.h>

#include <algorithm>

#include "lib/core/terminal/log.h"
#include "lib/data/tokenizer/pipeline/normal_forms.h"
#include "lib/data/tokenizer/tokenizer.h"
#include "lib/data/tokenizer/unicode.h"

namespace comera::data {
namespace {

constexpr std::size_t most_added = 1 << 20, longest_added = 1 << 12;

// \w in the regular expressions of Rust matches letters, marks, digits, connectors, circled letters, joiners. Other
// numbers, such as fractions, are none.
bool is_word_character(std::uint32_t c) {
  const auto within = [c](std::uint32_t first, std::uint32_t last) { return c >= first && c <= last; };
  const auto kind = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return (kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_NL) || kind == UTF8PROC_CATEGORY_PC ||
         within(0x200C, 0x200D) || within(0x24B6, 0x24E9) || within(0x1F130, 0x1F149) || within(0x1F150, 0x1F169) ||
         within(0x1F170, 0x1F189);
}

std::uint32_t code_point_at(std::string_view text, std::size_t at) { return next_code_point(text, at); }

bool stands_alone(std::string_view text, Span span) {
  const bool left = span.begin > 0 && is_word_character(code_point_at(text, character_before(text, span.begin)));
  const bool right = span.end < text.size() && is_word_character(code_point_at(text, span.end));
  return !left && !right;
}

}  // namespace

AddedTokens::AddedTokens(const JsonNode& list, const Vocabulary& vocabulary, const Normalizer& normalizer) {
  list.for_each_item([&](const JsonNode& item) {
    AddedToken token{.content = item.at("content").text(),
                     .single_word = item.flag_or("single_word", false),
                     .lstrip = item.flag_or("lstrip", false),
                     .rstrip = item.flag_or("rstrip", false),
                     .special = item.flag_or("special", false)};
    token.normalized = item.flag_or("normalized", !token.special);
    const std::int64_t id = item.at("id").integer();
    if (id < 0 || id >= most_pieces) item.fail("the id {} is outside 0..{}", id, most_pieces - 1);
    const std::int32_t piece = vocabulary.find(token.content);
    token.id = piece >= 0 ? piece : static_cast<std::int32_t>(id);
    if (token.content.empty()) return;
    if (token.content.size() > longest_added)
      item.fail("the token has {} bytes; at most {} are read", token.content.size(), longest_added);
    if (all_.size() == most_added) item.fail("more than {} tokens were added", most_added);
    AlignedText content(token.content, {0, token.content.size()}, false);
    if (token.normalized && normalizer) normalizer(content);
    token.shown = content.text;
    by_id_.emplace(token.id, all_.size());
    all_.push_back(token);
    add_to(token.normalized ? normalised_ : original_, content.text, all_.size() - 1);
  });
}

void AddedTokens::add_to(Search& search, std::string_view content, std::size_t place) {
  if (content.empty()) return;
  search.trie.insert(content, static_cast<std::int32_t>(place));
  search.begins[static_cast<unsigned char>(content[0])] = true;
  search.any = true;
}

const AddedToken* AddedTokens::find(std::int32_t id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &all_[found->second];
}

const AddedToken* AddedTokens::find(std::string_view content) const {
  const auto found = std::find_if(all_.begin(), all_.end(), [&](const AddedToken& t) { return t.content == content; });
  return found == all_.end() ? nullptr : &*found;
}

std::vector<TextPart> AddedTokens::split(std::string_view text, const Search& search) const {
  std::vector<TextPart> parts;
  std::size_t done = 0;
  for (std::size_t at = 0; search.any && at < text.size();) {
    std::size_t length = 0;
    const bool begins = search.begins[static_cast<unsigned char>(text[at])];
    const std::int32_t place = begins ? search.trie.longest(text.substr(at), length) : -1;
    if (place < 0) {
      ++at;
      continue;
    }
    const AddedToken& token = all_[static_cast<std::size_t>(place)];
    Span span{at, at + length};
    at = span.end;
    if (token.single_word && !stands_alone(text, span)) continue;
    while (token.lstrip && span.begin > done) {
      const std::size_t before = character_before(text, span.begin);
      if (!is_white_space(code_point_at(text, before))) break;
      span.begin = before;
    }
    for (std::size_t next = span.end;
         token.rstrip && next < text.size() && is_white_space(next_code_point(text, next));)
      span.end = next;
    if (span.begin > done) parts.push_back({{done, span.begin}});
    parts.push_back({span, token.id});
    at = done = span.end;
  }
  if (done < text.size()) parts.push_back({{done, text.size()}});
  return parts;
}

}  // namespace comera::data
