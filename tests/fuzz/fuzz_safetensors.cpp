// Reads any bytes as a safetensors file. Either an error with a message, or headers that describe the file correctly.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "lib/core/error.h"
#include "lib/io/tt_format.h"

using namespace comera;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const io::SafetensorsHeader header = io::parse_safetensors(text, size, "input");
    std::uint64_t expected = 0;
    std::vector<io::ModelFolder::Entry> entries;
    for (const io::StoredTensor& tensor : header.tensors) {
      if (tensor.begin != expected ||
          tensor.bytes() != static_cast<std::uint64_t>(tensor.elements()) * io::size_of(tensor.type))
        std::abort();
      expected = tensor.end;
      entries.push_back({tensor, 0});
      if (!io::is_floating(tensor.type)) continue;
      std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
      const auto bytes = std::as_bytes(std::span(data, size)).subspan(header.data_begin + tensor.begin, tensor.bytes());
      io::to_floats(tensor.type, bytes, values);
    }
    if (header.data_begin + expected != size) std::abort();
    io::describe(entries, {}, "input");
  } catch (const InputError&) {
  }
  return 0;
}
