#include "lib/data/tokenizer/sentencepiece_message.h"

#include <google/protobuf/io/coded_stream.h>

#include <bit>

#include "lib/core/error.h"

namespace comera::data {
namespace {

using google::protobuf::io::CodedInputStream;

// Numbers of fields in sentencepiece_model.proto.
namespace model_field {
constexpr int piece = 1, trainer = 2, normalizer = 3;
}
namespace piece_field {
constexpr int text = 1, score = 2, type = 3;
}
constexpr int trainer_model_type = 3, normalizer_charsmap = 2, normalizer_adds_blank = 3;
constexpr std::uint64_t bpe = 2;  // a value of trainer_model_type

SentencePieceEntry entry_of(std::string_view message, const std::string& name) {
  SentencePieceEntry entry;
  const bool whole = each_field(message, [&](const MessageField& field) {
    if (field.number == piece_field::text) entry.text = field.text;
    if (field.number == piece_field::score) entry.score = std::bit_cast<float>(static_cast<std::uint32_t>(field.bits));
    if (field.number == piece_field::type && field.bits >= 1 && field.bits <= 6)
      entry.type = static_cast<PieceType>(field.bits);
  });
  if (!whole) fail_input("[tokenizer] {}: a piece is damaged; fetch the model again", name);
  return entry;
}

}  // namespace

bool each_field(std::string_view message, const std::function<void(const MessageField&)>& take) {
  CodedInputStream stream(reinterpret_cast<const std::uint8_t*>(message.data()), static_cast<int>(message.size()));
  for (std::uint32_t tag = 0; (tag = stream.ReadTag()) != 0;) {
    MessageField field{.number = static_cast<int>(tag >> 3)};
    std::uint32_t four = 0;
    switch (tag & 7) {
      case 0:
        if (!stream.ReadVarint64(&field.bits)) return false;
        break;
      case 1:
        if (!stream.ReadLittleEndian64(&field.bits)) return false;
        break;
      case 2: {
        if (!stream.ReadVarint32(&four)) return false;
        const auto at = static_cast<std::size_t>(stream.CurrentPosition());
        if (four > message.size() - at || !stream.Skip(static_cast<int>(four))) return false;
        field.has_text = true;
        field.text = message.substr(at, four);
        break;
      }
      case 5:
        if (!stream.ReadLittleEndian32(&four)) return false;
        field.bits = four;
        break;
      default: return false;  // these messages contain no groups
    }
    take(field);
  }
  return stream.ConsumedEntireMessage();
}

SentencePieceFacts read_sentencepiece_facts(std::string_view model, const std::string& name) {
  SentencePieceFacts facts;
  const bool whole = each_field(model, [&](const MessageField& field) {
    if (!field.has_text) return;
    if (field.number == model_field::piece) facts.pieces.push_back(entry_of(field.text, name));
    if (field.number == model_field::trainer)
      each_field(field.text, [&](const MessageField& inner) {
        if (inner.number == trainer_model_type) facts.merges_by_score = inner.bits == bpe;
      });
    if (field.number == model_field::normalizer)
      each_field(field.text, [&](const MessageField& inner) {
        if (inner.number == normalizer_charsmap && inner.has_text) facts.charsmap = inner.text;
        if (inner.number == normalizer_adds_blank) facts.adds_blank = inner.bits != 0;
      });
  });
  if (!whole) fail_input("[tokenizer] {}: is not a SentencePiece model; fetch the model again", name);
  return facts;
}

}  // namespace comera::data
