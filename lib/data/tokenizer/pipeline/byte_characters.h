// The 256 printable characters that stand for bytes in byte-level vocabularies (Radford et al. 2019): printable Latin-1
// for itself, the other bytes from U+0100 on in their order.
#pragma once

#include <string>
#include <string_view>

#include "lib/data/tokenizer/pipeline/aligned_text.h"

namespace comera::data {

const std::string& character_of_byte(unsigned char byte);  // UTF-8
// The byte of a character; -1 if it stands for none.
int byte_of_character(std::uint32_t code_point);

// Writes every byte of `text` as its character.
void write_bytes_as_characters(AlignedText& text);

// The bytes of a piece; the piece itself if one of its characters stands for no byte.
std::string bytes_of_piece(std::string_view piece);

// The text with U+FFFD for each part that is not UTF-8, as Rust's String::from_utf8_lossy.
std::string valid_utf8(std::string_view bytes);

}  // namespace comera::data
