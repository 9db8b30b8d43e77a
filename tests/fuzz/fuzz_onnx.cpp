// Any bytes as an ONNX model: refused with a sentence, or a graph whose initialisers hold the bytes of their shapes.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "lib/core/error.h"
#include "lib/io/onnx.h"

using namespace comera;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const onnx::ModelProto model = io::parse_onnx({reinterpret_cast<const char*>(data), size}, "input");
    for (const onnx::TensorProto& tensor : model.graph().initializer()) {
      const auto bytes = static_cast<std::uint64_t>(io::onnx_elements(tensor, "input")) * io::onnx_element_bytes(tensor.data_type());
      if (tensor.has_raw_data() && tensor.data_location() != onnx::TensorProto::EXTERNAL && tensor.raw_data().size() != bytes) std::abort();
    }
    if (io::onnx_bytes(model) < model.ByteSizeLong()) std::abort();
  } catch (const InputError&) {
  }
  return 0;
}
