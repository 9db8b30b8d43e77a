// UTF-8, and the character classes that BERT's normaliser uses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace comera::data {

// Position of the first byte that is not part of well-formed UTF-8 (overlong forms and surrogates are invalid). npos
// if all of `text` is valid.
std::size_t find_invalid_utf8(std::string_view text);

// Returns the code point at `text[at]` (valid UTF-8) and moves `at` past it.
inline std::uint32_t next_code_point(std::string_view text, std::size_t& at) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(text[i])); };
  const std::uint32_t first = byte(at);
  if (first < 0x80) return at += 1, first;
  if (first < 0xE0) return at += 2, (first & 0x1F) << 6 | (byte(at - 1) & 0x3F);
  if (first < 0xF0) return at += 3, (first & 0x0F) << 12 | (byte(at - 2) & 0x3F) << 6 | (byte(at - 1) & 0x3F);
  return at += 4,
         (first & 0x07) << 18 | (byte(at - 3) & 0x3F) << 12 | (byte(at - 2) & 0x3F) << 6 | (byte(at - 1) & 0x3F);
}

// Start of the character that ends at `at` > 0 (valid UTF-8).
inline std::size_t character_before(std::string_view text, std::size_t at) {
  do --at;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80);
  return at;
}

void append_utf8(std::string& text, std::uint32_t code_point);

// Hugging Face's `tokenizers` classifies by Unicode 8.0 and lower-cases by Unicode 17. These functions match it, not
// the system's Unicode 15.
bool is_removed(std::uint32_t code_point);  // U+0000, U+FFFD, Cc, Cf, Co, except tab, newline and carriage return
bool is_space(std::uint32_t code_point);    // Zs, Zl, Zp, tab, newline, carriage return
bool is_punctuation(
    std::uint32_t code_point);  // P*, and every printable ASCII character that is neither letter nor digit
bool is_nonspacing(std::uint32_t code_point);  // Mn
bool is_cjk(std::uint32_t code_point);         // the ideographs that BERT separates by blanks

// Appends the canonical decomposition without Mn. NFD's reordering is skipped: it moves only marks, and nearly all
// marks are dropped here.
void append_without_accents(std::string& text, std::uint32_t code_point);
void append_lower(std::string& text, std::uint32_t code_point);

}  // namespace comera::data
