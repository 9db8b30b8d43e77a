// Reads any bytes as a vocab.txt and, after the first null byte, a text to encode. Either an error with a message, or
// ids of the vocabulary.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "lib/core/error.h"
#include "lib/data/tokenizer/unicode.h"
#include "lib/data/tokenizer/wordpiece.h"

using namespace comera;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t end = std::min(input.find('\0'), size);
  try {
    const data::WordPiece tokenizer(input.substr(0, end), "input", data::BertRules{});
    const std::string_view text = input.substr(std::min(end + 1, size));
    if (data::find_invalid_utf8(text) != std::string_view::npos) return 0;
    const data::Ids ids = static_cast<const data::Tokenizer&>(tokenizer).encode(text);
    for (const std::int32_t id : ids)
      if (id < 0 || id >= tokenizer.vocab_size()) std::abort();
    tokenizer.decode(ids, true);
  } catch (const InputError&) {
  }
  return 0;
}
