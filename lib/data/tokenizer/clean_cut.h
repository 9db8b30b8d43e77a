// A place at which a text can be cut in two without a change of its tokens.
#pragma once

#include <string_view>

#include "lib/data/tokenizer/tokenizer.h"

namespace comera::data {

// Cuts at the last blank at which the text around it splits cleanly: both sides together have the same pieces as each
// side alone. The test is needed because some vocabularies have pieces with a blank inside, or add no blank before a
// text. Without such a blank, cuts after the last character.
Cut clean_cut(const Tokenizer& tokenizer, std::string_view text);

}  // namespace comera::data
