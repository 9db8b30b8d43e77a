// Reads any bytes as modules.json. Either an error with a message, or paths inside the folder.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "lib/core/error.h"
#include "lib/core/files/file.h"
#include "lib/io/modules.h"

using namespace comera;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    for (const io::Module& module : io::parse_modules(text, "input"))
      if (!module.path.empty() && !is_inside(module.path)) std::abort();
    for (const io::Module& module : io::parse_modules(io::with_transformer_on_top(text, "input"), "input"))
      if (module.kind() == "Transformer" && !module.path.empty()) std::abort();
  } catch (const InputError&) {
  }
  return 0;
}
