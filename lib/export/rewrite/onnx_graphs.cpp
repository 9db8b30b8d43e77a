#include "lib/export/rewrite/onnx_graphs.h"

namespace comera::exporting {

bool is_standard(const onnx::NodeProto& node) { return node.domain().empty() || node.domain() == "ai.onnx"; }

const onnx::AttributeProto* attribute_of(const onnx::NodeProto& node, const char* name) {
  for (const onnx::AttributeProto& attribute : node.attribute())
    if (attribute.name() == name) return &attribute;
  return nullptr;
}

std::int64_t integer_of(const onnx::NodeProto& node, const char* attribute, std::int64_t otherwise) {
  const onnx::AttributeProto* found = attribute_of(node, attribute);
  return found ? found->i() : otherwise;
}

void set_integer(onnx::NodeProto& node, const char* attribute, std::int64_t value) {
  onnx::AttributeProto* set = nullptr;
  for (onnx::AttributeProto& one : *node.mutable_attribute())
    if (one.name() == attribute) set = &one;
  if (!set) set = node.add_attribute();
  set->set_name(attribute);
  set->set_type(onnx::AttributeProto::INT);
  set->set_i(value);
}

std::vector<const onnx::GraphProto*> subgraphs(const onnx::NodeProto& node) {
  std::vector<const onnx::GraphProto*> found;
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    if (attribute.has_g()) found.push_back(&attribute.g());
    for (const onnx::GraphProto& graph : attribute.graphs()) found.push_back(&graph);
  }
  return found;
}

std::vector<onnx::GraphProto*> subgraphs(onnx::NodeProto& node) {
  std::vector<onnx::GraphProto*> found;
  for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
    if (attribute.has_g()) found.push_back(attribute.mutable_g());
    for (onnx::GraphProto& graph : *attribute.mutable_graphs()) found.push_back(&graph);
  }
  return found;
}

std::set<std::string> names_in(const onnx::GraphProto& graph) {
  std::set<std::string> names;
  for (const onnx::ValueInfoProto& input : graph.input()) names.insert(input.name());
  for (const onnx::TensorProto& tensor : graph.initializer()) names.insert(tensor.name());
  for (const onnx::NodeProto& node : graph.node()) {
    names.insert(node.output().begin(), node.output().end());
    for (const onnx::GraphProto* inner : subgraphs(node)) names.merge(names_in(*inner));
  }
  return names;
}

std::int64_t opset_of(const onnx::ModelProto& model) {
  for (const onnx::OperatorSetIdProto& one : model.opset_import())
    if (one.domain().empty() || one.domain() == "ai.onnx") return one.version();
  return 0;
}

}  // namespace comera::exporting
