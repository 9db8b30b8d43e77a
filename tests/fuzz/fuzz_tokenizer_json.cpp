// Reads any bytes as a tokenizer.json and, after the first null byte, a text to encode. Either an error with a message,
// or ids of the vocabulary whose offsets lie in the text.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "lib/core/error.h"
#include "lib/data/tokenizer/pipeline/pipeline.h"
#include "lib/data/tokenizer/unicode.h"

using namespace comera;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t end = std::min(input.find('\0'), size);
  const std::string_view text = input.substr(std::min(end + 1, size));
  if (data::find_invalid_utf8(text) != std::string_view::npos) return 0;
  try {
    const data::Pipeline tokenizer({.tokenizer = std::string(input.substr(0, end))}, "input");
    data::Ids ids;
    std::vector<data::Span> offsets;
    tokenizer.encode(text, ids, offsets);
    if (offsets.size() != ids.size()) std::abort();
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] < 0 || ids[i] >= tokenizer.vocab_size()) std::abort();
      if (offsets[i].begin > offsets[i].end || offsets[i].end > text.size()) std::abort();
    }
    data::Ids plain;
    static_cast<const data::Tokenizer&>(tokenizer).encode(text, plain);
    if (plain != ids) std::abort();
    tokenizer.decode(ids, true);
  } catch (const InputError&) {
  }
  return 0;
}
