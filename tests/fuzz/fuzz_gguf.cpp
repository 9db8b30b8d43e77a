// Reads any bytes as a GGUF file. Either an error with a message, or tensors inside the file whose numbers can be read.
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "lib/core/error.h"
#include "lib/io/gguf/gguf.h"

using namespace comera;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const io::GgufHeader header = io::parse_gguf({reinterpret_cast<const char*>(data), size}, "input");
    for (const io::GgufTensor& tensor : header.tensors) {
      if (tensor.begin > tensor.end || tensor.end > size) std::abort();
      std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
      io::dequantise(tensor.type, std::as_bytes(std::span(data, size)).subspan(tensor.begin, tensor.end - tensor.begin),
                     values);
    }
  } catch (const InputError&) {
  }
  return 0;
}
