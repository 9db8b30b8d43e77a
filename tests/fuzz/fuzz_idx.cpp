// Reads any bytes as an IDX file. Either an error with a message, or as many bytes as the sizes say.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "lib/core/error.h"
#include "lib/data/images/idx.h"

using namespace comera;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const data::Idx idx = data::read_idx(*data::ByteStream::of(text), "input");
    std::int64_t wanted = 1;
    if (idx.sizes.empty() || idx.sizes.size() > 4) std::abort();
    for (const std::int64_t one : idx.sizes) {
      if (one < 1) std::abort();
      wanted *= one;
    }
    if (wanted != static_cast<std::int64_t>(idx.bytes.size()) || idx.bytes.size() + 4 > size) std::abort();
  } catch (const InputError&) {
  }
  return 0;
}
