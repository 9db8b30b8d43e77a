// Reads any bytes as a regular expression and, after the first null byte, a text to search. Either an error with a
// message, or matches in order that do not overlap and end where characters end.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "lib/core/error.h"
#include "lib/data/tokenizer/pipeline/pattern.h"
#include "lib/data/tokenizer/unicode.h"

using namespace comera;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t end = std::min(input.find('\0'), size);
  const std::string_view expression = input.substr(0, end), text = input.substr(std::min(end + 1, size));
  if (data::find_invalid_utf8(text) != std::string_view::npos) return 0;
  if (data::find_invalid_utf8(expression) != std::string_view::npos) return 0;
  const auto begins = [&](std::size_t at) {
    return at == text.size() || (static_cast<unsigned char>(text[at]) & 0xC0) != 0x80;
  };
  try {
    const data::Pattern pattern = data::Pattern::expression(std::string(expression), "input");
    std::size_t last = 0;
    pattern.for_each_match(text, [&](data::Span span) {
      if (span.begin < last || span.end <= span.begin || span.end > text.size()) std::abort();
      if (!begins(span.begin) || !begins(span.end)) std::abort();
      last = span.end;
    });
  } catch (const InputError&) {
  }
  return 0;
}
