#include "lib/io/sentencepiece_message.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <bit>
#include <optional>

#include "lib/core/error.h"

namespace comera::io {
namespace {

using google::protobuf::io::CodedInputStream;
using google::protobuf::io::CodedOutputStream;

// Numbers of fields in sentencepiece_model.proto.
namespace model_field {
constexpr int piece = 1, trainer = 2, normalizer = 3;
}
namespace piece_field {
constexpr int text = 1, score = 2, type = 3;
}
namespace trainer_field {
constexpr int model_type = 3, byte_fallback = 35, begin = 46, end = 47;
}
namespace normalizer_field {
constexpr int name = 1, charsmap = 2, adds_blank = 3, removes_blanks = 4;
}
constexpr std::uint64_t unigram = 1, bpe = 2;  // values of trainer_field::model_type

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

// A message that is written field by field.
class Message {
 public:
  void number(int field, std::uint64_t bits) { tag(field, 0), stream_->WriteVarint64(bits); }
  void real(int field, float value) {
    tag(field, 5), stream_->WriteLittleEndian32(std::bit_cast<std::uint32_t>(value));
  }
  void text(int field, const std::string& bytes) {
    tag(field, 2), stream_->WriteVarint32(static_cast<std::uint32_t>(bytes.size())), stream_->WriteString(bytes);
  }
  std::string take() { return stream_.reset(), std::move(bytes_); }

 private:
  void tag(int field, std::uint32_t kind) { stream_->WriteTag(static_cast<std::uint32_t>(field) << 3 | kind); }

  std::string bytes_;
  google::protobuf::io::StringOutputStream output_{&bytes_};
  std::optional<CodedOutputStream> stream_{std::in_place, &output_};  // it writes the last bytes when it ends
};

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
        if (inner.number == trainer_field::model_type) facts.merges_by_score = inner.bits == bpe;
        if (inner.number == trainer_field::begin && inner.has_text) facts.begin = inner.text;
        if (inner.number == trainer_field::end && inner.has_text) facts.end = inner.text;
      });
    if (field.number == model_field::normalizer)
      each_field(field.text, [&](const MessageField& inner) {
        if (inner.number == normalizer_field::charsmap && inner.has_text) facts.charsmap = inner.text;
        if (inner.number == normalizer_field::adds_blank) facts.adds_blank = inner.bits != 0;
      });
  });
  if (!whole) fail_input("[tokenizer] {}: is not a SentencePiece model; fetch the model again", name);
  return facts;
}

std::string sentencepiece_model(const SentencePieceFacts& facts) {
  Message model, trainer, normalizer;
  for (const SentencePieceEntry& entry : facts.pieces) {
    Message piece;
    piece.text(piece_field::text, entry.text);
    piece.real(piece_field::score, entry.score);
    piece.number(piece_field::type, static_cast<std::uint64_t>(entry.type));
    model.text(model_field::piece, piece.take());
  }
  const bool has_bytes = std::any_of(facts.pieces.begin(), facts.pieces.end(),
                                     [](const SentencePieceEntry& entry) { return entry.type == PieceType::byte; });
  trainer.number(trainer_field::model_type, facts.merges_by_score ? bpe : unigram);
  trainer.number(trainer_field::byte_fallback, has_bytes);
  trainer.text(trainer_field::begin, facts.begin);
  trainer.text(trainer_field::end, facts.end);
  model.text(model_field::trainer, trainer.take());
  normalizer.text(normalizer_field::name, facts.charsmap.empty() ? "identity" : "user_defined");
  normalizer.text(normalizer_field::charsmap, facts.charsmap);
  normalizer.number(normalizer_field::adds_blank, facts.adds_blank);
  normalizer.number(normalizer_field::removes_blanks, false);
  model.text(model_field::normalizer, normalizer.take());
  return model.take();
}

}  // namespace comera::io
