#include "lib/data/tokenizer/clean_cut.h"

namespace comera::data {
namespace {

constexpr std::size_t around = 64, tries = 64;  // bytes on each side, blanks

bool falls_apart(const Tokenizer& tokenizer, std::string_view text, const Cut& place) {
  std::size_t begin = place.end > around ? place.end - around : 0;
  while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
  const std::string_view left = text.substr(begin, place.end - begin),
                         right = whole_characters(text.substr(place.next), around);
  const Ids whole = tokenizer.encode(text.substr(begin, place.next - begin + right.size()));
  Ids parts = tokenizer.encode(left);
  tokenizer.encode(right, parts);
  return whole == parts;
}

}  // namespace

Cut clean_cut(const Tokenizer& tokenizer, std::string_view text) {
  std::size_t at = text.size() > around ? text.size() - around : 0;
  for (std::size_t i = 0; i < tries && at > 0; ++i) {
    at = text.rfind(' ', at - 1);
    if (at == std::string_view::npos || at == 0) break;
    for (const std::size_t next : {at + 1, at})
      if (falls_apart(tokenizer, text, {at, next})) return {at, next};
  }
  return {text.size(), text.size()};
}

}  // namespace comera::data
