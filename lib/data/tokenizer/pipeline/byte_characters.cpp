#include "lib/data/tokenizer/pipeline/byte_characters.h"

#include <array>

#include "lib/data/tokenizer/unicode.h"

namespace comera::data {
namespace {

struct Characters {
  std::array<std::string, 256> of_byte;
  std::array<int, 512> of_character;
  Characters() {
    of_character.fill(-1);
    std::uint32_t next = 0x100;
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
      const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
      const std::uint32_t character = printable ? byte : next++;
      append_utf8(of_byte[byte], character);
      of_character[character] = static_cast<int>(byte);
    }
  }
};

const Characters& characters() {
  static const Characters all;
  return all;
}

// Bytes of the longest start of `rest` that could begin a well-formed sequence; at least 1.
std::size_t broken_length(std::string_view rest) {
  const auto byte = [&](std::size_t i) { return i < rest.size() ? static_cast<unsigned char>(rest[i]) : 0u; };
  const unsigned first = byte(0);
  const std::size_t length = first >= 0xF0 && first <= 0xF4 ? 4 : first >= 0xE0 && first <= 0xEF ? 3 : 1;
  if (length == 1) return 1;
  const unsigned low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const unsigned high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  if (byte(1) < low || byte(1) > high) return 1;
  return length == 4 && (byte(2) & 0xC0) == 0x80 ? 3 : 2;
}

}  // namespace

const std::string& character_of_byte(unsigned char byte) { return characters().of_byte[byte]; }

int byte_of_character(std::uint32_t code_point) {
  return code_point < 512 ? characters().of_character[code_point] : -1;
}

void write_bytes_as_characters(AlignedText& text) {
  Rewrite rewrite(text);
  while (!rewrite.done()) {
    std::size_t end = rewrite.at();
    next_code_point(text.text, end);
    std::string written;
    for (std::size_t i = rewrite.at(); i < end; ++i)
      written += character_of_byte(static_cast<unsigned char>(text.text[i]));
    rewrite.replace(end - rewrite.at(), written);
  }
  text = rewrite.finish();
}

std::string bytes_of_piece(std::string_view piece) {
  std::string bytes;
  for (std::size_t at = 0; at < piece.size();) {
    const int byte = byte_of_character(next_code_point(piece, at));
    if (byte < 0) return std::string(piece);
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

std::string valid_utf8(std::string_view bytes) {
  std::string text;
  for (;;) {
    const std::size_t bad = find_invalid_utf8(bytes);
    text += bytes.substr(0, bad);
    if (bad == std::string_view::npos) return text;
    bytes.remove_prefix(bad);
    text += "\xEF\xBF\xBD";
    bytes.remove_prefix(broken_length(bytes));
  }
}

}  // namespace comera::data
