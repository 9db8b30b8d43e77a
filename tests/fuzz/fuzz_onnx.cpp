// Reads any bytes as an ONNX model. Either an error with a message, or a graph whose initialisers have the bytes of
// their shapes and whose constants have nodes that use them.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "lib/core/error.h"
#include "lib/export/rewrite/onnx_uses.h"
#include "lib/io/onnx.h"

using namespace comera;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const onnx::ModelProto model = io::parse_onnx({reinterpret_cast<const char*>(data), size}, "input");
    for (const onnx::TensorProto& tensor : model.graph().initializer()) {
      const auto elements = static_cast<std::uint64_t>(io::onnx_elements(tensor, "input"));
      const auto bytes = io::onnx_raw_bytes(tensor.data_type(), elements);
      if (tensor.has_raw_data() && tensor.data_location() != onnx::TensorProto::EXTERNAL &&
          tensor.raw_data().size() != bytes)
        std::abort();
    }
    if (io::onnx_bytes(model) < model.ByteSizeLong()) std::abort();
    for (const exporting::OnnxConstant& constant : exporting::constants_of(model)) {
      if (!constant.tensor || constant.graph < 0) std::abort();
      for (const exporting::OnnxReader& reader : constant.readers)
        if (reader.node < 0 || constant.tensor->dims_size() < (reader.looks_up() ? 2 : 0)) std::abort();
    }
  } catch (const InputError&) {
  }
  return 0;
}
