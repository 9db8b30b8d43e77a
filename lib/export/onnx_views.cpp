#include "lib/export/onnx_views.h"

namespace comera::exporting {
namespace {

using onnx::TensorProto;

const onnx::AttributeProto* attribute_of(const onnx::NodeProto& node, const char* name) {
  for (const onnx::AttributeProto& attribute : node.attribute())
    if (attribute.name() == name) return &attribute;
  return nullptr;
}

bool is_float(std::int64_t type) { return type == TensorProto::FLOAT || type == TensorProto::FLOAT16 || type == TensorProto::BFLOAT16; }

// Two axes that change places; without an attribute a matrix is turned.
bool swaps_two(const onnx::NodeProto& node) {
  const onnx::AttributeProto* order = attribute_of(node, "perm");
  return !order || (order->ints_size() == 2 && order->ints(0) == 1 && order->ints(1) == 0);
}

void add_names(const onnx::GraphProto& graph, std::set<std::string>& names) {
  for (const onnx::NodeProto& node : graph.node()) names.insert(node.input().begin(), node.input().end());
  names.merge(names_in_subgraphs(graph));
  for (const onnx::ValueInfoProto& output : graph.output()) names.insert(output.name());
}

}  // namespace

bool is_standard(const onnx::NodeProto& node) { return node.domain().empty() || node.domain() == "ai.onnx"; }

std::int64_t integer_of(const onnx::NodeProto& node, const char* name, std::int64_t otherwise) {
  const onnx::AttributeProto* attribute = attribute_of(node, name);
  return attribute ? attribute->i() : otherwise;
}

void hoist_constants(onnx::GraphProto& graph) {
  auto& nodes = *graph.mutable_node();
  int kept = 0;
  for (int i = 0; i < nodes.size(); ++i) {
    const onnx::AttributeProto* value = is_standard(nodes[i]) && nodes[i].op_type() == "Constant" ? attribute_of(nodes[i], "value") : nullptr;
    if (value && nodes[i].output_size() == 1 && value->t().dims_size() == 2 && is_float(value->t().data_type())) {
      TensorProto& tensor = *graph.add_initializer();
      tensor = value->t();
      tensor.set_name(nodes[i].output(0));
    } else {
      if (kept != i) nodes.SwapElements(kept, i);
      ++kept;
    }
  }
  nodes.DeleteSubrange(kept, nodes.size() - kept);
}

bool makes_view(const onnx::NodeProto& node, const std::map<std::string, OnnxView>& views) {
  if (!is_standard(node) || node.input_size() != 1 || node.output_size() != 1 || !views.contains(node.input(0))) return false;
  if (node.op_type() == "Identity") return true;
  if (node.op_type() == "Transpose") return swaps_two(node);
  const onnx::AttributeProto* to = attribute_of(node, "to");
  return node.op_type() == "Cast" && to && is_float(to->i()) && is_float(views.at(node.input(0)).type);
}

std::map<std::string, OnnxView> views_of(const onnx::GraphProto& graph) {
  std::map<std::string, OnnxView> views;
  for (const TensorProto& tensor : graph.initializer()) views[tensor.name()] = {tensor.name(), false, tensor.data_type()};
  for (const onnx::NodeProto& node : graph.node()) {
    if (!makes_view(node, views)) continue;
    OnnxView view = views.at(node.input(0));
    if (node.op_type() == "Transpose") view.turned = !view.turned;
    if (node.op_type() == "Cast") view.type = static_cast<std::int32_t>(attribute_of(node, "to")->i());
    views[node.output(0)] = std::move(view);
  }
  return views;
}

std::set<std::string> names_in_subgraphs(const onnx::GraphProto& graph) {
  std::set<std::string> names;
  for (const onnx::NodeProto& node : graph.node())
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      if (attribute.has_g()) add_names(attribute.g(), names);
      for (const onnx::GraphProto& inner : attribute.graphs()) add_names(inner, names);
    }
  return names;
}

}  // namespace comera::exporting
