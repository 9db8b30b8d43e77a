#include "lib/io/template_processing.h"

namespace comera::io {
namespace {

Json piece_place(const FramePiece& piece, int type) {
  return {{"SpecialToken", {{"id", piece.text}, {"type_id", type}}}};
}

Json text_place(const char* name, int type) { return {{"Sequence", {{"id", name}, {"type_id", type}}}}; }

Json special_token(const FramePiece& piece) {
  Json ids = Json::array(), tokens = Json::array();
  ids.push_back(piece.id);
  tokens.push_back(piece.text);
  return {{"id", piece.text}, {"ids", ids}, {"tokens", tokens}};
}

}  // namespace

Json template_processing(const FramePiece& begin, const std::optional<FramePiece>& end) {
  Json single = Json::array(), pair = Json::array();
  for (Json* list : {&single, &pair}) {
    list->push_back(piece_place(begin, 0));
    list->push_back(text_place("A", 0));
    if (end) list->push_back(piece_place(*end, 0));
  }
  pair.push_back(text_place("B", 1));
  if (end) pair.push_back(piece_place(*end, 1));
  Json tokens = Json::object();
  tokens[begin.text] = special_token(begin);
  if (end) tokens[end->text] = special_token(*end);
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", tokens}};
}

}  // namespace comera::io
