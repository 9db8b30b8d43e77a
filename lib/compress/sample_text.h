// English text that is built in, to run a model on where no other text is given.
#pragma once

#include <span>
#include <string_view>

namespace comera::compress {

std::span<const std::string_view> sample_text();  // a line is a text of one or two sentences

}  // namespace comera::compress
