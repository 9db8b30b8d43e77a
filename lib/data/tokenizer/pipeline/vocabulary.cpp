#include "lib/data/tokenizer/pipeline/vocabulary.h"

#include "lib/core/terminal/log.h"
#include "lib/data/tokenizer/tokenizer.h"
#include "lib/data/tokenizer/unicode.h"

namespace comera::data {

Vocabulary Vocabulary::of_object(const JsonNode& node) {
  if (!node.json().is_object()) node.fail("must be an object of pieces and ids, is {}", node.json().type_name());
  Vocabulary vocabulary;
  vocabulary.ids_.reserve(node.json().size());
  for (const auto& [piece, id] : node.json().items()) {
    if (!id.is_number_integer()) node.fail("the id of \"{}\" must be an integer", printable(piece));
    vocabulary.add(piece, id.get<std::int64_t>(), node);
  }
  if (vocabulary.size() == 0) node.fail("is empty");
  return vocabulary;
}

void Vocabulary::add(std::string piece, std::int64_t id, const JsonNode& node) {
  if (id < 0 || id >= most_pieces)
    node.fail("the id {} of \"{}\" is outside 0..{}", id, printable(piece), most_pieces - 1);
  const auto place = static_cast<std::size_t>(id);
  if (place >= pieces_.size()) {
    pieces_.resize(place + 1);
    present_.resize(place + 1, false);
  }
  if (present_[place] && pieces_[place] != piece)
    node.fail("\"{}\" and \"{}\" have the same id {}", printable(pieces_[place]), printable(piece), id);
  pieces_[place] = piece;
  present_[place] = true;
  ids_[std::move(piece)] = static_cast<std::int32_t>(id);
}

std::int32_t Vocabulary::find(std::string_view piece) const {
  const auto found = ids_.find(piece);
  return found == ids_.end() ? -1 : found->second;
}

}  // namespace comera::data
