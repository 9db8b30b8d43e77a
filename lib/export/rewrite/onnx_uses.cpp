#include "lib/export/rewrite/onnx_uses.h"

#include <fmt/core.h>

#include <map>
#include <optional>

#include "lib/export/rewrite/onnx_graphs.h"
#include "lib/io/onnx.h"

namespace comera::exporting {
namespace {

using onnx::TensorProto;
using How = OnnxReader::How;

constexpr std::int64_t none = INT64_MAX;  // no axis

bool is_float(std::int64_t type) {
  return type == TensorProto::FLOAT || type == TensorProto::DOUBLE || type == TensorProto::FLOAT16 ||
         type == TensorProto::BFLOAT16;
}

// A constant under one of the names by which nodes read it. Exporters put Identity, Transpose and Cast between a weight
// and its reader.
struct View {
  std::size_t constant = 0;
  bool turned = false;
  std::int32_t type = 0;
};

struct Scope {
  const Scope* outer = nullptr;
  std::map<std::string, std::optional<View>> names;  // names made in this graph, constants or not

  const View* view(const std::string& name) const {
    for (const Scope* scope = this; scope; scope = scope->outer)
      if (const auto found = scope->names.find(name); found != scope->names.end())
        return found->second ? &*found->second : nullptr;
    return nullptr;
  }
};

// True if the last two axes are exchanged. Without the attribute, all axes are reversed.
bool swaps_last_two(const onnx::NodeProto& node, int dims) {
  const onnx::AttributeProto* order = attribute_of(node, "perm");
  if (!order) return dims == 2;
  if (dims < 2 || order->ints_size() != dims) return false;
  for (int i = 0; i < dims - 2; ++i)
    if (order->ints(i) != i) return false;
  return order->ints(dims - 2) == dims - 1 && order->ints(dims - 1) == dims - 2;
}

const TensorProto* value_of_constant(const onnx::NodeProto& node) {
  const onnx::AttributeProto* value =
      is_standard(node) && node.op_type() == "Constant" ? attribute_of(node, "value") : nullptr;
  return value && value->has_t() && node.output_size() == 1 ? &value->t() : nullptr;
}

class ConstantFinder {
 public:
  explicit ConstantFinder(const onnx::ModelProto& model) : lists_initialisers_(lists_initialisers(model)) {
    search(model.graph(), nullptr);
  }

  std::vector<OnnxConstant> take() { return std::move(constants_); }

 private:
  void search(const onnx::GraphProto& graph, const Scope* outer) {
    const int number = graphs_++;
    Scope scope{outer, {}};
    for (const onnx::ValueInfoProto& input : graph.input()) scope.names[input.name()] = std::nullopt;
    for (const TensorProto& tensor : graph.initializer()) {
      const bool is_input = scope.names.contains(tensor.name());
      add_constant(scope, tensor.name(), {.name = tensor.name(), .tensor = &tensor, .graph = number});
      if (is_input && (outer || !lists_initialisers_))
        refuse(*scope.view(tensor.name()), "it is an input of the graph, which a caller may replace");
    }
    for (const onnx::NodeProto& node : graph.node()) visit(node, scope, number);
    for (const onnx::ValueInfoProto& output : graph.output())
      if (const View* view = scope.view(output.name()))
        refuse(*view, outer ? "it is an output of a subgraph (of If, Loop or Scan)" : "it is an output of the graph");
  }

  void visit(const onnx::NodeProto& node, Scope& scope, int graph) {
    const int number = nodes_++;
    const std::vector<const onnx::GraphProto*> inside = subgraphs(node);
    if (const TensorProto* value = inside.empty() ? value_of_constant(node) : nullptr)
      return add_constant(scope, node.output(0),
                          {.name = node.output(0), .tensor = value, .graph = graph, .node = number});
    const bool passes_on = node.input_size() == 1 && node.output_size() == 1 && is_standard(node) && inside.empty();
    const View* whole = passes_on ? scope.view(node.input(0)) : nullptr;
    if (const std::optional<View> view = whole ? view_of(node, *whole) : std::nullopt) {
      constants_[view->constant].views.push_back(number);
      scope.names[node.output(0)] = view;
      return;
    }
    for (int k = 0; k < node.input_size(); ++k)
      if (const View* view = scope.view(node.input(k))) add_reader(node, number, k, *view, scope);
    for (const onnx::GraphProto* inner : inside) search(*inner, &scope);
    for (const std::string& output : node.output()) scope.names[output] = std::nullopt;
  }

  void add_constant(Scope& scope, const std::string& name, OnnxConstant constant) {
    scope.names[name] = View{constants_.size(), false, constant.tensor->data_type()};
    constants_.push_back(std::move(constant));
  }

  std::optional<View> view_of(const onnx::NodeProto& node, View view) const {
    if (node.op_type() == "Identity") return view;
    if (node.op_type() == "Transpose" && swaps_last_two(node, constants_[view.constant].tensor->dims_size())) {
      view.turned = !view.turned;
      return view;
    }
    const std::int64_t to = integer_of(node, "to", 0);
    if (node.op_type() != "Cast" || !is_float(to) || !is_float(view.type)) return std::nullopt;
    view.type = static_cast<std::int32_t>(to);
    return view;
  }

  void refuse(const View& view, std::string why) {
    OnnxConstant& constant = constants_[view.constant];
    if (constant.obstacle.empty()) constant.obstacle = std::move(why);
  }

  static void read_whole(OnnxConstant& constant, std::string why) {
    if (constant.other.empty()) constant.other = std::move(why);
  }

  void add_reader(const onnx::NodeProto& node, int number, int input, const View& view, const Scope& scope) {
    OnnxConstant& constant = constants_[view.constant];
    const bool is_plain = constant.tensor->dims_size() == 2;
    const auto is = [&](const char* op) { return is_standard(node) && node.op_type() == op; };
    const bool takes_two = node.input_size() >= 2 && node.output_size() == 1;
    const bool gemm = is("Gemm") && takes_two && is_plain, product = gemm || (is("MatMul") && takes_two);
    const std::int64_t axis = is("Gather") && takes_two && is_plain && input == 0 ? integer_of(node, "axis", 0) : none;
    if (product && input == 0 && scope.view(node.input(1)))
      return refuse(view, io::onnx_node_name(node) + " multiplies it with another constant");
    if (product && input < 2) {
      const bool flips = gemm && integer_of(node, input == 0 ? "transA" : "transB", 0) != 0;
      constant.readers.push_back({number, input == 0 ? How::left : How::right, view.turned != flips, view.type});
    } else if (axis >= -2 && axis < 2) {
      constant.readers.push_back({number, axis == 0 || axis == -2 ? How::rows : How::columns, view.turned, view.type});
    } else if (is("DequantizeLinear")) {
      refuse(view, fmt::format("it is quantised, {} reads it; tensorize the model before it is quantised",
                               io::onnx_node_name(node)));
    } else {
      read_whole(constant, fmt::format("{} reads it, and only MatMul, Gemm and Gather can read a chain instead",
                                       io::onnx_node_name(node)));
    }
  }

  bool lists_initialisers_;
  std::vector<OnnxConstant> constants_;
  int graphs_ = 0, nodes_ = 0;
};

}  // namespace

bool lists_initialisers(const onnx::ModelProto& model) { return model.ir_version() < 4; }

std::vector<OnnxConstant> constants_of(const onnx::ModelProto& model) { return ConstantFinder(model).take(); }

}  // namespace comera::exporting
