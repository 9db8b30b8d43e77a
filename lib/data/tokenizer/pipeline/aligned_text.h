// A text that is rewritten step by step and, if wanted, knows for each of its bytes which bytes of the original text it
// came from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace comera::data {

// Bytes [begin, end) of a text.
struct Span {
  std::size_t begin = 0, end = 0;
  std::size_t size() const { return end - begin; }
  bool operator==(const Span&) const = default;
};

struct AlignedText {
  std::string text;
  std::vector<Span> from;  // per byte of `text`: bytes of the original; empty if origins are not followed
  bool follows = false;
  Span original;  // what the whole text came from

  AlignedText() = default;
  // The bytes `place` of `whole` (valid UTF-8), every character from itself.
  AlignedText(std::string_view whole, Span place, bool follows_origins);

  // The bytes of the original that `part` came from; empty if origins are not followed.
  Span origin_of(Span part) const;
};

// Rewrites a text from its start to its end. What is written gets its origin as the fast tokenizers of Hugging Face
// give it: a replacement has the origin of the first character that it replaces, an insertion that of the byte before
// it (at the start: of the first byte).
class Rewrite {
 public:
  explicit Rewrite(const AlignedText& source) : source_(source) {
    made_.follows = source.follows;
    made_.original = source.original;
    made_.text.reserve(source.text.size() + source.text.size() / 4);
  }

  std::size_t at() const { return at_; }  // next byte of the source
  bool done() const { return at_ >= source_.text.size(); }
  std::size_t written() const { return made_.text.size(); }

  void keep(std::size_t bytes);                               // copies
  void drop(std::size_t bytes) { at_ += bytes; }              // leaves out
  void replace(std::size_t bytes, std::string_view by);       // `by` has the origin of the character at at()
  void replace_span(std::size_t bytes, std::string_view by);  // `by` has the origin of the last of the bytes
  void insert(std::string_view text);

  AlignedText finish() { return std::move(made_); }

 private:
  void write(std::string_view text, std::size_t origin);
  const AlignedText& source_;
  AlignedText made_;
  std::size_t at_ = 0;
};

}  // namespace comera::data
