// Reads any bytes as an index of shards. Either an error with a message, or file names inside their folder.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "lib/core/error.h"
#include "lib/io/model_folder.h"

using namespace comera;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    for (const auto& [tensor, file] : io::parse_index({reinterpret_cast<const char*>(data), size}, "input"))
      if (!is_inside(file) || file.find('/') != std::string::npos) std::abort();
  } catch (const InputError&) {
  }
  return 0;
}
