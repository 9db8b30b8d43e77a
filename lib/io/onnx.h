// ONNX files: protobuf's messages as they are (namespace onnx), with reading that trusts nothing and writing that
// repeats exactly.
#pragma once

#include <onnx.pb.h>

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/core/file.h"
#include "lib/io/safetensors.h"

namespace comera::io {

// For messages, printable: "node h/MatMul (MatMul)", and of one without a name what it makes.
std::string onnx_node_name(const onnx::NodeProto& node);
std::string onnx_type_name(std::int32_t type);  // "FLOAT", ...; a number for one that we do not know
// Bytes per element; 0 for strings and types that we do not know.
std::size_t onnx_element_bytes(std::int32_t type);
// Product of the dims. InputError (naming `where`) when one is negative or the product is beyond 2^60.
std::int64_t onnx_elements(const onnx::TensorProto& tensor, const std::string& where);

// Every tensor that the graph holds: its initialisers, and those in attributes of its nodes and in the graphs inside of
// these.
std::vector<onnx::TensorProto*> onnx_tensors(onnx::GraphProto& graph);
std::vector<const onnx::TensorProto*> onnx_tensors(const onnx::GraphProto& graph);

// Every name is made before it is used (so no cycle), initialisers hold exactly the bytes of their shapes, names are
// unique, a version of the standard operators is named. External data is only looked at where `folder` is given (its
// files, sizes and that they lie inside). Unknown operators and attributes are fine. InputErrors open with `name`.
void check_onnx(const onnx::ModelProto& model, const std::string& name, const std::string& folder = "");

// Messages out of bytes that nobody vouches for; checked as above.
onnx::ModelProto parse_onnx(std::string_view bytes, const std::string& name, const std::string& folder = "");

// An open ONNX file. External data is mapped when it is asked for.
class OnnxFile {
 public:
  explicit OnnxFile(std::string path);

  const std::string& path() const { return path_; }
  onnx::ModelProto& model() { return model_; }
  const onnx::ModelProto& model() const { return model_; }
  // Bytes of an initialiser that stores them as such (raw or external); empty where it uses a typed field.
  std::span<const std::byte> bytes(const onnx::TensorProto& tensor);
  // Converted to float, whatever floating type and field it is stored in. InputError: another type.
  std::vector<float> read_floats(const onnx::TensorProto& tensor);

 private:
  std::string path_;
  onnx::ModelProto model_;
  std::map<std::string, MappedFile> external_;
};

// The place of a tensor's bytes outside of the message.
struct OnnxExternal {
  std::string location;
  std::uint64_t offset = 0, length = 0;
};
OnnxExternal onnx_external(const onnx::TensorProto& tensor, const std::string& where);

struct OnnxWriting {
  // Messages beyond this many bytes put their large initialisers into `<path>.data`; protobuf ends at 2 GiB.
  std::uint64_t message_limit = (std::uint64_t{1} << 31) - (std::uint64_t{1} << 20);
  OnnxFile* source = nullptr;  // where initialisers with external data come from
};
struct OnnxWritten {
  std::uint64_t bytes = 0;         // of all files
  std::vector<std::string> files;  // one, or two with external data
};
// Whole or not at all; the same model gives the same bytes. Data of a model beyond the limit is written first.
OnnxWritten write_onnx(const std::string& path, onnx::ModelProto& model, const OnnxWriting& options = {});
// Bytes that write_onnx() would write (of all files).
std::uint64_t onnx_bytes(const onnx::ModelProto& model);
// The same of a model whose initialisers may be declared only (dims and type, no data yet), once they have their data.
// Its file is called `file`.
std::uint64_t planned_onnx_bytes(onnx::ModelProto model, const std::string& file = "model.onnx",
                                 const OnnxWriting& options = {});

}  // namespace comera::io
