// Tokenizer for SentencePiece models (Kudo & Richardson 2018), based on the SentencePiece library.
#include <sentencepiece_processor.h>

#include "lib/core/error.h"
#include "lib/core/files/file.h"
#include "lib/core/hash.h"
#include "lib/data/tokenizer/clean_cut.h"
#include "lib/data/tokenizer/sentencepiece_check.h"
#include "lib/data/tokenizer/tokenizer.h"

namespace comera::data {
namespace {

class SentencePiece final : public Tokenizer {
 public:
  SentencePiece(std::string_view model, std::string name)
      : name_(std::move(name)), model_(model), hash_(hash_text(model)) {
    const auto status = load();
    if (!status.ok() || processor_.GetPieceSize() == 0)
      fail_input("[tokenizer] {}: is not a SentencePiece model ({})", name_,
                 status.ok() ? "it holds no pieces" : status.message());
    specials_.unknown = processor_.unk_id();
    specials_.pad = first_of({"<pad>", "[PAD]"}, processor_.pad_id());
    specials_.cls = first_of({"[CLS]"}, processor_.bos_id());
    specials_.sep = first_of({"[SEP]"}, processor_.eos_id());
    specials_.begin = processor_.bos_id() >= 0 ? processor_.bos_id() : specials_.cls;
    specials_.end = processor_.eos_id() >= 0 ? processor_.eos_id() : specials_.sep;
    specials_.mask = first_of({"[MASK]", "<mask>"}, -1);
  }

  using Tokenizer::encode;
  void encode(std::string_view text, Ids& ids) const override {
    while (text.size() > usual_part) {
      const Cut place = first_cut(text);
      encode_part(text.substr(0, place.end), ids);
      text.remove_prefix(place.next);
    }
    encode_part(text, ids);
  }

  Cut cut(std::string_view text) const override { return clean_cut(*this, text); }

  std::string decode(const Ids& ids, bool keep_special) const override {
    std::vector<int> kept;
    for (std::int32_t id : ids) {
      check(id);
      if (keep_special || !specials_.contains(id) || id == specials_.unknown) kept.push_back(id);
    }
    std::string text;
    const auto status = processor_.Decode(kept, &text);
    if (!status.ok()) fail_input("[tokenizer] {}: ids cannot be decoded: {}", name_, status.message());
    return text;
  }

  const Specials& specials() const override { return specials_; }
  std::int64_t vocab_size() const override { return processor_.GetPieceSize(); }
  std::string piece(std::int32_t id) const override { return check(id), processor_.IdToPiece(id); }
  const std::string& hash() const override { return hash_; }
  const std::string& source() const override { return name_; }
  void save(const Folder& folder) const override { write_file_atomic(folder, "tokenizer.model", model_); }

 private:
  // The library's memory is about a hundred times the bytes of a part, so parts are as small as clean cuts permit.
  Cut first_cut(std::string_view text) const {
    for (std::size_t size = usual_part;; size *= 2) {
      const std::string_view part = whole_characters(text, size);
      const Cut place = cut(part);
      if (place.next < part.size() || size >= longest_part) return place;
    }
  }

  // The library throws for tables that it cannot build; it returns no status.
  sentencepiece::util::Status load() try {
    return processor_.LoadFromSerializedProto(model_);
  } catch (const std::exception& error) {
    fail_input("[tokenizer] {}: is not a SentencePiece model ({})", name_, error.what());
  }

  void encode_part(std::string_view text, Ids& ids) const {
    std::vector<int> found;
    const auto status = processor_.Encode(text, &found);
    if (!status.ok()) fail_input("[tokenizer] {}: a text cannot be encoded: {}", name_, status.message());
    ids.insert(ids.end(), found.begin(), found.end());
  }

  void check(std::int32_t id) const {
    if (!has(id)) fail_input("[tokenizer] {}: id {} is outside the vocabulary of {} entries", name_, id, vocab_size());
  }
  std::int32_t first_of(std::initializer_list<const char*> pieces, int otherwise) const {
    for (const char* piece : pieces)
      if (const int id = processor_.PieceToId(piece); id != processor_.unk_id()) return id;
    return otherwise;
  }

  std::string name_, model_, hash_;
  sentencepiece::SentencePieceProcessor processor_;
  Specials specials_;
};

}  // namespace

std::shared_ptr<const Tokenizer> parse_sentencepiece(std::string_view model, const std::string& name) {
  check_sentencepiece(model, name);
  return std::make_shared<SentencePiece>(model, name);
}

}  // namespace comera::data
