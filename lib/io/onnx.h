// ONNX files as protobuf messages (namespace onnx). The reader checks untrusted files completely; the writer is
// deterministic.
#pragma once

#include <onnx.pb.h>

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/core/files/file.h"
#include "lib/io/safetensors.h"

namespace comera::io {

// Node name for messages, printable: "node h/MatMul (MatMul)". A node without a name is described by its output.
std::string onnx_node_name(const onnx::NodeProto& node);
std::string onnx_type_name(std::int32_t type);  // "FLOAT", ...; a number for an unknown type
// Types of ONNX 1.16, newer than the definitions that we build with: two numbers per byte, the first in its low half.
inline constexpr std::int32_t onnx_uint4 = 21, onnx_int4 = 22;
// Bytes of so many elements as raw data. None for strings and unknown types.
std::optional<std::uint64_t> onnx_raw_bytes(std::int32_t type, std::uint64_t elements);
// Product of the dims. InputError (with `where`) if one is negative or the product is above 2^58.
std::int64_t onnx_elements(const onnx::TensorProto& tensor, const std::string& where);

// Every tensor of the graph: its initialisers, and those in attributes of its nodes and in their subgraphs.
std::vector<onnx::TensorProto*> onnx_tensors(onnx::GraphProto& graph);
std::vector<const onnx::TensorProto*> onnx_tensors(const onnx::GraphProto& graph);

// Checks that every name is defined before its use (which excludes cycles), that initialisers have exactly the bytes
// of their shapes, that names are unique, and that the model names a version of the standard operators. External data
// (files, sizes, location inside the folder) is checked only if `folder` is given. Unknown operators and attributes
// are accepted. InputErrors start with `name`.
void check_onnx(const onnx::ModelProto& model, const std::string& name, const std::string& folder = "");

// Parses a message from untrusted bytes and checks it as above.
onnx::ModelProto parse_onnx(std::string_view bytes, const std::string& name, const std::string& folder = "");

// An open ONNX file. External data is mapped on the first request.
class OnnxFile {
 public:
  explicit OnnxFile(std::string path);

  const std::string& path() const { return path_; }
  onnx::ModelProto& model() { return model_; }
  const onnx::ModelProto& model() const { return model_; }
  // Bytes of an initialiser with raw or external data; empty if it uses a typed field.
  std::span<const std::byte> bytes(const onnx::TensorProto& tensor);
  // Converts any floating type in any field to float. InputError for another type.
  std::vector<float> read_floats(const onnx::TensorProto& tensor);

 private:
  std::string path_;
  onnx::ModelProto model_;
  std::map<std::string, MappedFile> external_;
};

// The position of a tensor's data outside the message.
struct OnnxExternal {
  std::string location;
  std::uint64_t offset = 0, length = 0;
};
OnnxExternal onnx_external(const onnx::TensorProto& tensor, const std::string& where);

struct OnnxWriting {
  // A message above this size moves its large initialisers into `<path>.data`. The limit of protobuf is 2 GiB.
  std::uint64_t message_limit = (std::uint64_t{1} << 31) - (std::uint64_t{1} << 20);
  OnnxFile* source = nullptr;  // source of initialisers with external data
};
struct OnnxWritten {
  std::uint64_t bytes = 0;         // of all files
  std::vector<std::string> files;  // one, or two with external data
};
// Atomic. The same model gives the same bytes. For a model above the limit, the data file is written first.
OnnxWritten write_onnx(const std::string& path, onnx::ModelProto& model, const OnnxWriting& options = {});
// Size of all files that write_onnx() would write.
std::uint64_t onnx_bytes(const onnx::ModelProto& model);
// The same for a model with initialisers that are only declared (dims and type, no data yet), as if they had their
// data. `file` is the name of its file.
std::uint64_t planned_onnx_bytes(onnx::ModelProto model, const std::string& file = "model.onnx",
                                 const OnnxWriting& options = {});

}  // namespace comera::io
