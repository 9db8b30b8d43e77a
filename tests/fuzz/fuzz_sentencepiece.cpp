// Reads any bytes as a SentencePiece model and as a precompiled_charsmap. A model is either an error with a message, or
// it encodes any text into its ids. An accepted map is walked here like in the library, on a copy whose end
// AddressSanitizer checks.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/core/error.h"
#include "lib/data/tokenizer/sentencepiece_check.h"
#include "lib/data/tokenizer/tokenizer.h"
#include "lib/data/tokenizer/unicode.h"

using namespace comera;

namespace {

// Copies Darts::DoubleArray::commonPrefixSearch() and the use of its results in Normalizer.
void walk(const std::vector<std::uint32_t>& units, const std::unique_ptr<char[]>& texts, std::size_t texts_size,
          std::string_view key) {
  const auto unit = [&](std::size_t index) { return index < units.size() ? units[index] : (std::abort(), 0U); };
  const auto offset = [](std::uint32_t bits) { return std::size_t{bits >> 10 << ((bits & 0x200U) >> 6)}; };
  std::size_t place = offset(unit(0));
  int matches = 0;
  for (const char c : key) {
    place ^= static_cast<unsigned char>(c);
    const std::uint32_t found = unit(place);
    if ((found & 0x800000ffU) != static_cast<unsigned char>(c)) return;
    place ^= offset(found);
    if ((found >> 8 & 1) == 0) continue;
    if (++matches > 32) std::abort();
    const std::size_t at = unit(place) & 0x7fffffffU;
    if (at >= texts_size || std::memchr(texts.get() + at, 0, texts_size - at) == nullptr) std::abort();
  }
}

void check_map(std::string_view map, std::string_view text) {
  data::check_charsmap(map, "input");
  if (map.empty()) return;
  std::uint32_t bytes = 0;
  std::memcpy(&bytes, map.data(), 4);
  std::vector<std::uint32_t> units(bytes / 4);
  std::memcpy(units.data(), map.data() + 4, bytes);
  const std::size_t rest = map.size() - 4 - bytes;
  const std::unique_ptr<char[]> texts(new char[rest]);
  std::memcpy(texts.get(), map.data() + 4 + bytes, rest);
  for (std::size_t from = 0; from < text.size(); ++from) walk(units, texts, rest, text.substr(from));
}

void check_model(std::string_view model, std::string_view text) {
  const auto tokenizer = data::parse_sentencepiece(model, "input");
  if (data::find_invalid_utf8(text) != std::string_view::npos) return;
  data::Ids ids;
  tokenizer->encode(text, ids);
  for (const std::int32_t id : ids)
    if (id < 0 || id >= tokenizer->vocab_size()) std::abort();
  tokenizer->decode(ids, true);
}

template <class Check>
void try_to(const Check& check) {
  try {
    check();
  } catch (const InputError&) {
  }
}

}  // namespace

// The first byte is the length of the text; the text follows it.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  if (input.empty()) return 0;
  const std::size_t length = std::min<std::size_t>(static_cast<unsigned char>(input[0]), input.size() - 1);
  const std::string_view text = input.substr(1, length), rest = input.substr(1 + length);
  try_to([&] { check_map(rest, text); });
  try_to([&] { check_model(rest, text); });
  return 0;
}
