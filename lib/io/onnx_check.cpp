// Checks of ONNX models from elsewhere, before any tensor is read.
#include <fmt/core.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <memory>
#include <set>
#include <unordered_set>

#include "lib/core/error.h"
#include "lib/core/join.h"
#include "lib/core/terminal/log.h"
#include "lib/core/units.h"
#include "lib/io/onnx.h"

namespace comera::io {
namespace {

using onnx::TensorProto;

constexpr const char* remedy = "the file is damaged, export the model again";

// Names that are visible at a point of a graph. A subgraph also sees the names of the graphs around it.
struct Scope {
  const Scope* outer = nullptr;
  std::unordered_set<std::string> known;
  std::unordered_set<std::string> later;  // outputs of later nodes

  bool has(const std::string& name) const { return known.contains(name) || (outer && outer->has(name)); }
};

class Checker {
 public:
  Checker(const std::string& name, const std::string& folder) : name_(name), folder_(folder) {}

  void check(const onnx::GraphProto& graph, const Scope* outer) {
    Scope scope{outer, {}, {}};
    for (const onnx::ValueInfoProto& input : graph.input())
      if (!scope.known.insert(input.name()).second)
        fail_input("{}: two inputs of the graph are called {}; {}", name_, printable(input.name()), remedy);
    check_initialisers(graph, scope);
    for (const onnx::NodeProto& node : graph.node())
      for (const std::string& output : node.output()) scope.later.insert(output);
    for (const onnx::NodeProto& node : graph.node()) check(node, scope);
    for (const onnx::ValueInfoProto& output : graph.output())
      if (!scope.has(output.name()))
        fail_input("{}: output {} of the graph is made by no node; {}", name_, printable(output.name()), remedy);
  }

 private:
  void check_initialisers(const onnx::GraphProto& graph, Scope& scope) {
    std::unordered_set<std::string> seen;
    for (const TensorProto& tensor : graph.initializer()) {
      const std::string where = fmt::format("{}: initialiser {}", name_, printable(tensor.name()));
      if (!seen.insert(tensor.name()).second) fail_input("{}: its name is used twice; {}", where, remedy);
      scope.known.insert(tensor.name());
      check(tensor, where);
    }
    for (const onnx::SparseTensorProto& tensor : graph.sparse_initializer()) scope.known.insert(tensor.values().name());
  }

  void check(const onnx::NodeProto& node, Scope& scope) {
    for (const std::string& input : node.input()) {
      if (input.empty() || scope.has(input)) continue;
      const char* why = scope.later.contains(input)
                            ? "which only a later node makes (the graph has a cycle or its nodes are not sorted)"
                            : "which nothing makes";
      fail_input("{}: {} reads {}, {}; {}", name_, onnx_node_name(node), printable(input), why, remedy);
    }
    for (const onnx::AttributeProto& attribute : node.attribute()) check(attribute, node, scope);
    for (const std::string& output : node.output())
      if (!output.empty() && !scope.known.insert(output).second)
        fail_input("{}: {} makes {}, which exists already; {}", name_, onnx_node_name(node), printable(output), remedy);
  }

  void check(const onnx::AttributeProto& attribute, const onnx::NodeProto& node, const Scope& scope) {
    const std::string where =
        fmt::format("{}: attribute {} of {}", name_, printable(attribute.name()), onnx_node_name(node));
    if (attribute.has_t()) check(attribute.t(), where);
    for (const TensorProto& tensor : attribute.tensors()) check(tensor, where);
    if (attribute.has_g()) check(attribute.g(), &scope);
    for (const onnx::GraphProto& graph : attribute.graphs()) check(graph, &scope);
  }

  void check(const TensorProto& tensor, const std::string& where) const {
    const auto elements = static_cast<std::uint64_t>(onnx_elements(tensor, where));
    if (fields_used(tensor) > 1) fail_input("{}: holds its data in more than one field; {}", where, remedy);
    if (tensor.data_location() == TensorProto::EXTERNAL) return check_external(tensor, elements, where);
    if (tensor.has_raw_data()) {
      const std::optional<std::uint64_t> size = onnx_raw_bytes(tensor.data_type(), elements);
      if (!size)
        fail_input("{}: type {} cannot be stored as raw bytes; {}", where, onnx_type_name(tensor.data_type()), remedy);
      if (tensor.raw_data().size() != *size) fail_size(tensor, where, *size, tensor.raw_data().size(), "bytes");
      return;
    }
    check_field(tensor, elements, where);
  }

  // Different readers use different fields, so only one may be set.
  static int fields_used(const TensorProto& tensor) {
    const bool external = tensor.data_location() == TensorProto::EXTERNAL;
    return external + !tensor.raw_data().empty() + (tensor.float_data_size() > 0) + (tensor.double_data_size() > 0) +
           (tensor.int32_data_size() > 0) + (tensor.int64_data_size() > 0) + (tensor.uint64_data_size() > 0) +
           (tensor.string_data_size() > 0);
  }

  // Checks the typed field for the element type.
  static void check_field(const TensorProto& tensor, std::uint64_t elements, const std::string& where) {
    std::int64_t held = -1;
    switch (tensor.data_type()) {
      case TensorProto::FLOAT: held = tensor.float_data_size(); break;
      case TensorProto::COMPLEX64: held = tensor.float_data_size() / 2; break;
      case TensorProto::DOUBLE: held = tensor.double_data_size(); break;
      case TensorProto::COMPLEX128: held = tensor.double_data_size() / 2; break;
      case TensorProto::INT64: held = tensor.int64_data_size(); break;
      case TensorProto::UINT32:
      case TensorProto::UINT64: held = tensor.uint64_data_size(); break;
      case TensorProto::STRING: held = tensor.string_data_size(); break;
      default: held = tensor.int32_data_size(); break;
    }
    if (!onnx_raw_bytes(tensor.data_type(), 1) && tensor.data_type() != TensorProto::STRING)
      return;  // a type of a later ONNX version
    if (tensor.data_type() == onnx_uint4 || tensor.data_type() == onnx_int4) elements = (elements + 1) / 2;
    if (static_cast<std::uint64_t>(held) != elements)
      fail_size(tensor, where, elements, static_cast<std::uint64_t>(held), "elements");
  }

  void check_external(const TensorProto& tensor, std::uint64_t elements, const std::string& where) const {
    const OnnxExternal external = onnx_external(tensor, where);
    if (folder_.empty()) return;
    const std::string path = join_path(folder_, external.location);
    if (!path_exists(path))
      fail_input("{}: its data file {} is missing; it belongs beside the model", where, printable(external.location));
    check_stays_inside(path, where);
    const std::uint64_t wanted = onnx_raw_bytes(tensor.data_type(), elements).value_or(0), size = file_size(path);
    const std::uint64_t length =
        external.length == 0 && external.offset <= size ? size - external.offset : external.length;
    if (length != wanted) fail_size(tensor, where, wanted, length, "bytes");
    if (external.offset > size || wanted > size - external.offset)
      fail_input("{}: its data ends at byte {} of {}, which has {}; {}", where, external.offset + wanted,
                 printable(external.location), size, remedy);
  }

  // A link inside the folder may point out of it.
  void check_stays_inside(const std::string& path, const std::string& where) const {
    const auto real = [](const std::string& name) {
      const std::unique_ptr<char, void (*)(void*)> found(::realpath(name.c_str(), nullptr), std::free);
      return found ? std::string(found.get()) : std::string();
    };
    const std::string inside = real(folder_), file = real(path);
    if (file.empty() || !file.starts_with(inside == "/" ? inside : inside + "/"))
      fail_input("{}: its data file is a link that leaves the model's folder; put the file itself there", where);
  }

  [[noreturn]] static void fail_size(const TensorProto& tensor, const std::string& where, std::uint64_t wanted,
                                     std::uint64_t came, const char* unit) {
    fail_input("{}: {} of shape [{}] take {} {}, but {} are there; {}", where, onnx_type_name(tensor.data_type()),
               join(tensor.dims(), ", "), wanted, unit, came, remedy);
  }

  const std::string& name_;
  const std::string& folder_;
};

}  // namespace

std::string onnx_node_name(const onnx::NodeProto& node) {
  if (!node.name().empty()) return fmt::format("node {} ({})", printable(node.name()), printable(node.op_type()));
  const std::string made = node.output().empty() ? "nothing" : printable(node.output(0));
  return fmt::format("a node without a name ({}, which makes {})", printable(node.op_type()), made);
}

std::string onnx_type_name(std::int32_t type) {
  return TensorProto::DataType_IsValid(type) ? TensorProto::DataType_Name(static_cast<TensorProto::DataType>(type))
                                             : fmt::format("type {}", type);
}

std::optional<std::uint64_t> onnx_raw_bytes(std::int32_t type, std::uint64_t elements) {
  switch (type) {
    case onnx_uint4:
    case onnx_int4: return (elements + 1) / 2;
    case TensorProto::UINT8:
    case TensorProto::INT8:
    case TensorProto::BOOL: return elements;
    case TensorProto::UINT16:
    case TensorProto::INT16:
    case TensorProto::FLOAT16:
    case TensorProto::BFLOAT16: return 2 * elements;
    case TensorProto::FLOAT:
    case TensorProto::INT32:
    case TensorProto::UINT32: return 4 * elements;
    case TensorProto::DOUBLE:
    case TensorProto::INT64:
    case TensorProto::UINT64:
    case TensorProto::COMPLEX64: return 8 * elements;
    case TensorProto::COMPLEX128: return 16 * elements;
    default: return std::nullopt;
  }
}

std::int64_t onnx_elements(const TensorProto& tensor, const std::string& where) {
  constexpr std::int64_t most = std::int64_t{1} << 58;  // at most 16 bytes per element still fit into 64 bits
  std::int64_t elements = 1;
  for (const std::int64_t dim : tensor.dims()) {
    if (dim < 0) fail_input("{}: shape [{}] has a negative size; {}", where, join(tensor.dims(), ", "), remedy);
    if (dim > 0 && elements > most / dim)
      fail_input("{}: shape [{}] is larger than any file; {}", where, join(tensor.dims(), ", "), remedy);
    elements *= dim;
  }
  return elements;
}

OnnxExternal onnx_external(const TensorProto& tensor, const std::string& where) {
  OnnxExternal external;
  for (const onnx::StringStringEntryProto& entry : tensor.external_data()) {
    if (entry.key() == "location") external.location = entry.value();
    if (entry.key() != "offset" && entry.key() != "length") continue;
    const auto number = parse_integer(entry.value());
    if (!number || *number < 0)
      fail_input("{}: its external data has the {} '{}'; a number of bytes was wanted; {}", where, entry.key(),
                 printable(entry.value()), remedy);
    (entry.key() == "offset" ? external.offset : external.length) = static_cast<std::uint64_t>(*number);
  }
  if (!is_inside(external.location))
    fail_input("{}: its data is said to lie in '{}'; only files inside the model's folder are opened", where,
               printable(external.location));
  return external;
}

void check_onnx(const onnx::ModelProto& model, const std::string& name, const std::string& folder) {
  if (!model.has_graph() || model.ir_version() < 3) fail_input("{}: holds no ONNX graph; is it an ONNX model?", name);
  const auto& imports = model.opset_import();
  if (std::none_of(imports.begin(), imports.end(),
                   [](const auto& one) { return one.domain().empty() || one.domain() == "ai.onnx"; }))
    fail_input("{}: names no version of the standard operators (opset_import); {}", name, remedy);
  Checker(name, folder).check(model.graph(), nullptr);
}

}  // namespace comera::io
