#include "lib/data/tokenizer/pipeline/charsmap.h"

#include <utf8proc.h>

#include <cstring>

#include "lib/core/error.h"
#include "lib/data/tokenizer/sentencepiece_check.h"
#include "lib/data/tokenizer/unicode.h"

namespace comera::data {
namespace {

std::string decode_base64(std::string_view text, const std::string& place) {
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  std::uint32_t bits = 0;
  int count = 0;
  while (!text.empty() && text.back() == '=') text.remove_suffix(1);
  for (char c : text) {
    const std::size_t digit = digits.find(c);
    if (digit == std::string_view::npos) fail_input("{}: is not base64", place);
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    if ((count += 6) < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 0xFF);
  }
  return bytes;
}

// Fields of a unit of the double array (darts-clone).
bool has_leaf(std::uint32_t unit) { return (unit >> 8 & 1) == 1; }
std::uint32_t value(std::uint32_t unit) { return unit & 0x7FFFFFFFu; }
std::uint32_t label(std::uint32_t unit) { return unit & (1u << 31 | 0xFFu); }
std::uint32_t offset(std::uint32_t unit) { return unit >> 10 << ((unit & 1u << 9) >> 6); }

// Replaces characters one for one; surplus new ones are inserted, surplus old ones go with the last.
void replace_characters(Rewrite& rewrite, std::string_view old, std::string_view by) {
  std::size_t at = 0;
  for (std::size_t next = 0; next < by.size();) {
    const std::size_t begin = next;
    next_code_point(by, next);
    const std::string_view character = by.substr(begin, next - begin);
    if (at == old.size()) {
      rewrite.insert(character);
      continue;
    }
    const std::size_t before = at;
    next_code_point(old, at);
    rewrite.replace(at - before, character);
  }
  rewrite.drop(old.size() - at);
}

// Calls `visit` with every grapheme cluster.
template <class Visit>
void for_each_grapheme(std::string_view text, Visit&& visit) {
  utf8proc_int32_t state = 0;
  std::uint32_t before = 0;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t start = at;
    const std::uint32_t next = next_code_point(text, at);
    if (start > 0 && utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(before),
                                                      static_cast<utf8proc_int32_t>(next), &state)) {
      visit(text.substr(begin, start - begin));
      begin = start;
    }
    before = next;
  }
  if (begin < text.size()) visit(text.substr(begin));
}

}  // namespace

Charsmap::Charsmap(const std::string& base64, const std::string& place) {
  const std::string map = decode_base64(base64, place);
  if (map.empty()) return;
  check_charsmap(map, place);
  std::uint32_t size = 0;
  std::memcpy(&size, map.data(), sizeof size);
  units_.resize(size / 4);
  std::memcpy(units_.data(), map.data() + sizeof size, units_.size() * 4);
  replacements_ = map.substr(sizeof size + size);
}

const char* Charsmap::find(std::string_view text) const {
  if (units_.empty()) return nullptr;
  std::uint32_t at = offset(units_[0]);
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte == 0) return nullptr;
    at ^= byte;
    if (at >= units_.size() || label(units_[at]) != byte) return nullptr;
    const std::uint32_t unit = units_[at];
    at ^= offset(unit);
    if (at >= units_.size()) return nullptr;
    if (!has_leaf(unit)) continue;
    const std::uint32_t found = value(units_[at]);
    return found < replacements_.size() ? replacements_.c_str() + found : nullptr;
  }
  return nullptr;
}

void Charsmap::apply(AlignedText& text) const {
  constexpr std::size_t longest_grapheme = 6;
  Rewrite rewrite(text);
  for_each_grapheme(text.text, [&](std::string_view grapheme) {
    if (grapheme.size() < longest_grapheme) {
      if (const char* by = find(grapheme)) return replace_characters(rewrite, grapheme, by);
    }
    for (std::size_t at = 0; at < grapheme.size();) {
      const std::size_t begin = at;
      next_code_point(grapheme, at);
      const std::string_view character = grapheme.substr(begin, at - begin);
      if (const char* by = find(character))
        replace_characters(rewrite, character, by);
      else
        rewrite.keep(character.size());
    }
  });
  text = rewrite.finish();
}

}  // namespace comera::data
