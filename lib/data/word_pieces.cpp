#include "lib/data/word_pieces.h"

#include <algorithm>

namespace comera::data {
namespace {

constexpr const char *going_on = "##", *metaspace = "\xE2\x96\x81", *byte_blank = "\xC4\xA0";

}  // namespace

std::vector<bool> pieces_inside_words(const Tokenizer& tokenizer) {
  std::vector<std::string> pieces;
  for (std::int64_t id = 0; id < tokenizer.vocab_size(); ++id)
    pieces.push_back(tokenizer.has(static_cast<std::int32_t>(id)) ? tokenizer.piece(static_cast<std::int32_t>(id))
                                                                  : "");
  const auto any = [&](const char* mark) {
    return std::any_of(pieces.begin(), pieces.end(), [&](const std::string& piece) {
      return piece.starts_with(mark) && piece.size() > std::string_view(mark).size();
    });
  };
  std::vector<bool> inside(pieces.size());
  const bool wordpiece = any(going_on);
  const char* mark = wordpiece ? going_on : any(metaspace) ? metaspace : any(byte_blank) ? byte_blank : nullptr;
  if (!mark) return inside;
  for (std::size_t id = 0; id < pieces.size(); ++id) inside[id] = pieces[id].starts_with(mark) == wordpiece;
  return inside;
}

}  // namespace comera::data
