// Reads and writes the messages of a SentencePiece model (sentencepiece_model.proto) without its generated code, which
// Debian's package does not have.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace comera::io {

// A field of a protocol buffer message. Fields with a length have `text`; all others have the bits of their number.
struct MessageField {
  int number = 0;
  bool has_text = false;
  std::string_view text = {};
  std::uint64_t bits = 0;
};

// Calls `take` for each field in the order of the message. Returns false if the bytes are no message; fields before
// the damage were taken.
bool each_field(std::string_view message, const std::function<void(const MessageField&)>& take);

enum class PieceType : std::uint8_t { normal = 1, unknown, control, user_defined, unused, byte };  // as in the message

struct SentencePieceEntry {
  std::string text;
  float score = 0;
  PieceType type = PieceType::normal;
};

// What other formats of the same tokenizer store.
struct SentencePieceFacts {
  std::vector<SentencePieceEntry> pieces = {};  // by id
  bool adds_blank = true;                       // before a text
  bool merges_by_score = false;                 // BPE; else a unigram model
  std::string charsmap = {};                    // precompiled_charsmap: replacements of characters
  std::string begin = "<s>", end = "</s>";      // pieces around a text
};

// InputError that begins with `name` if the bytes are no such message.
SentencePieceFacts read_sentencepiece_facts(std::string_view model, const std::string& name);
// The bytes of a model that keeps blanks as they are and has these facts. Unknown characters are bytes if it has pieces
// for bytes.
std::string sentencepiece_model(const SentencePieceFacts& facts);

}  // namespace comera::io
