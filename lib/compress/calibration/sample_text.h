// Built-in English text, used when no other text is given.
#pragma once

#include <span>
#include <string_view>

namespace comera::compress {

std::span<const std::string_view> sample_text();  // each line is a text of one or two sentences

}  // namespace comera::compress
