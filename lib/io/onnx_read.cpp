// Reads ONNX files.
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <climits>
#include <cstring>

#include "lib/core/error.h"
#include "lib/core/half.h"
#include "lib/core/terminal/log.h"
#include "lib/io/onnx.h"

namespace comera::io {
namespace {

using onnx::TensorProto;

bool stored_type_of(std::int32_t type, StoredType& stored) {
  switch (type) {
    case TensorProto::FLOAT: stored = StoredType::F32; return true;
    case TensorProto::FLOAT16: stored = StoredType::F16; return true;
    case TensorProto::BFLOAT16: stored = StoredType::BF16; return true;
    case TensorProto::DOUBLE: stored = StoredType::F64; return true;
    default: return false;
  }
}

// Reads the typed fields. int32_data holds the bits of 16-bit types.
std::vector<float> floats_of_field(const TensorProto& tensor) {
  if (tensor.data_type() == TensorProto::FLOAT) return {tensor.float_data().begin(), tensor.float_data().end()};
  std::vector<float> out;
  if (tensor.data_type() == TensorProto::DOUBLE) {
    for (const double value : tensor.double_data()) out.push_back(static_cast<float>(value));
    return out;
  }
  for (const std::int32_t bits : tensor.int32_data()) {
    const auto half = static_cast<std::uint16_t>(bits);
    out.push_back(tensor.data_type() == TensorProto::FLOAT16 ? half_to_float(half) : bf16_to_float(half));
  }
  return out;
}

void add_tensors(onnx::GraphProto& graph, std::vector<TensorProto*>& found) {
  for (TensorProto& tensor : *graph.mutable_initializer()) found.push_back(&tensor);
  for (onnx::NodeProto& node : *graph.mutable_node())
    for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
      if (attribute.has_t()) found.push_back(attribute.mutable_t());
      for (TensorProto& tensor : *attribute.mutable_tensors()) found.push_back(&tensor);
      if (attribute.has_g()) add_tensors(*attribute.mutable_g(), found);
      for (onnx::GraphProto& inner : *attribute.mutable_graphs()) add_tensors(inner, found);
    }
}

}  // namespace

std::vector<TensorProto*> onnx_tensors(onnx::GraphProto& graph) {
  std::vector<TensorProto*> found;
  add_tensors(graph, found);
  return found;
}

std::vector<const TensorProto*> onnx_tensors(const onnx::GraphProto& graph) {
  const std::vector<TensorProto*> found = onnx_tensors(const_cast<onnx::GraphProto&>(graph));  // used read-only
  return {found.begin(), found.end()};
}

onnx::ModelProto parse_onnx(std::string_view bytes, const std::string& name, const std::string& folder) {
  if (bytes.size() > static_cast<std::size_t>(INT_MAX))
    fail_input("{}: is larger than 2 GiB; such a model keeps its weights in a second file", name);
  onnx::ModelProto model;
  if (!model.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    fail_input("{}: is no ONNX model, or it is damaged; export the model again", name);
  check_onnx(model, name, folder);
  return model;
}

OnnxFile::OnnxFile(std::string path) : path_(std::move(path)) {
  const MappedFile file(path_);
  model_ = parse_onnx(file.text(), path_, parent_path(path_));
}

std::span<const std::byte> OnnxFile::bytes(const TensorProto& tensor) {
  if (tensor.data_location() != TensorProto::EXTERNAL)
    return std::as_bytes(std::span(tensor.raw_data().data(), tensor.raw_data().size()));
  const std::string where = fmt::format("{}: initialiser {}", path_, printable(tensor.name()));
  const OnnxExternal external = onnx_external(tensor, where);
  const auto [found, fresh] = external_.try_emplace(external.location);
  if (fresh) found->second = MappedFile(join_path(parent_path(path_), external.location));
  const std::uint64_t size =
      onnx_raw_bytes(tensor.data_type(), static_cast<std::uint64_t>(onnx_elements(tensor, where))).value_or(0);
  const std::span<const std::byte> all = found->second.bytes();
  if (external.offset > all.size() || size > all.size() - external.offset)
    fail_input("{}: its data file has become shorter; export the model again", where);
  return all.subspan(external.offset, size);
}

std::vector<float> OnnxFile::read_floats(const TensorProto& tensor) {
  StoredType type{};
  if (!stored_type_of(tensor.data_type(), type))
    fail_input("{}: initialiser {} is of type {}; a floating type was wanted", path_, printable(tensor.name()),
               onnx_type_name(tensor.data_type()));
  if (tensor.data_location() != TensorProto::EXTERNAL && !tensor.has_raw_data()) return floats_of_field(tensor);
  std::vector<float> out(static_cast<std::size_t>(onnx_elements(tensor, path_)));
  to_floats(type, bytes(tensor), out);
  return out;
}

}  // namespace comera::io
