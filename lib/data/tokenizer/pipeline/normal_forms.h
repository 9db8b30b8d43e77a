// Unicode normal forms (UAX 15) and the character classes of Rust's `char`.
#pragma once

#include <cstdint>

#include "lib/data/tokenizer/pipeline/aligned_text.h"

namespace comera::data {

enum class NormalForm : std::uint8_t { nfd, nfc, nfkd, nfkc };

void normalise(AlignedText& text, NormalForm form);

bool is_white_space(std::uint32_t code_point);  // White_Space
bool is_mark(std::uint32_t code_point);         // M*
bool is_numeric(std::uint32_t code_point);      // N*

}  // namespace comera::data
