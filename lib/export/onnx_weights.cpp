#include "lib/export/onnx_weights.h"

#include <algorithm>
#include <map>
#include <optional>

#include "lib/core/error.h"
#include "lib/export/onnx_views.h"

namespace comera::exporting {
namespace {

using onnx::TensorProto;

std::int64_t integer_of(const onnx::NodeProto& node, const char* name, std::int64_t otherwise) {
  for (const onnx::AttributeProto& attribute : node.attribute())
    if (attribute.name() == name) return attribute.i();
  return otherwise;
}

std::optional<io::StoredType> stored_type(std::int32_t type) {
  switch (type) {
    case TensorProto::FLOAT: return io::StoredType::F32;
    case TensorProto::FLOAT16: return io::StoredType::F16;
    case TensorProto::BFLOAT16: return io::StoredType::BF16;
    default: return std::nullopt;
  }
}

enum class Use : std::uint8_t { none, linear, linear_transposed, table };

// How `node` uses its input `index`.
Use use_of(const onnx::NodeProto& node, int index) {
  if (!is_standard(node)) return Use::none;
  if (node.op_type() == "MatMul" && index == 1) return Use::linear;
  if (node.op_type() == "Gemm" && index == 1 && integer_of(node, "transA", 0) == 0)
    return integer_of(node, "transB", 0) != 0 ? Use::linear_transposed : Use::linear;
  if (node.op_type() == "Gather" && index == 0 && integer_of(node, "axis", 0) == 0) return Use::table;
  return Use::none;
}

// The same of a matrix that the node reads as its transpose.
Use turned(Use use) { return use == Use::linear ? Use::linear_transposed : use == Use::linear_transposed ? Use::linear : Use::none; }

struct Found {
  Use use = Use::none;
  bool mixed = false;
  std::int32_t type = 0;
  std::vector<int> nodes;

  void add(Use how, std::int32_t as, int node) {
    mixed = mixed || how == Use::none || (!nodes.empty() && (use != how || type != as));
    use = how;
    type = as;
    nodes.push_back(node);
  }
};

// What reads which initialiser, whatever view of it; names that a subgraph or the outputs mention count as used in a way of their own.
std::map<std::string, Found> uses_of(const onnx::GraphProto& graph) {
  const std::map<std::string, OnnxView> views = views_of(graph);
  std::map<std::string, Found> uses;
  for (int i = 0; i < graph.node_size(); ++i) {
    if (makes_view(graph.node(i), views)) continue;
    for (int k = 0; k < graph.node(i).input_size(); ++k) {
      const auto view = views.find(graph.node(i).input(k));
      if (view == views.end()) continue;
      const Use use = use_of(graph.node(i), k);
      uses[view->second.initialiser].add(view->second.turned ? turned(use) : use, view->second.type, i);
    }
  }
  const auto mix = [&](const std::string& name) {
    if (const auto view = views.find(name); view != views.end()) uses[view->second.initialiser].mixed = true;
  };
  for (const onnx::ValueInfoProto& output : graph.output()) mix(output.name());
  for (const onnx::ValueInfoProto& input : graph.input()) mix(input.name());  // a default that a caller may replace
  for (const std::string& name : names_in_subgraphs(graph)) mix(name);
  return uses;
}

onnx::NodeProto& add_node(onnx::GraphProto& graph, const std::string& op, const std::vector<Name>& inputs, const Name& output) {
  onnx::NodeProto& node = *graph.add_node();
  node.set_op_type(op);
  node.set_name(output);
  for (const Name& input : inputs) node.add_input(input);
  node.add_output(output);
  return node;
}

// The node of a linear weight as two products; a Gemm keeps its scale and its bias in the second.
void split_product(onnx::GraphProto& graph, onnx::NodeProto node, const LinearConstants& halves) {
  if (!halves.left.empty()) {
    const Name middle = node.output(0) + "/left";
    add_node(graph, "MatMul", {node.input(0), halves.left}, middle);
    node.set_input(0, middle);
  }
  node.set_input(1, halves.right);
  for (onnx::AttributeProto& attribute : *node.mutable_attribute())
    if (attribute.name() == "transB") attribute.set_i(0);
  *graph.add_node() = std::move(node);
}

void add_integer(onnx::NodeProto& node, const char* name, std::int64_t value) {
  onnx::AttributeProto& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto::INT);
  attribute.set_i(value);
}

// A lookup by ids of any shape as two lookups and a product: quotient and remainder of the id, and a last size that is the table's.
struct Lookup {
  TableConstants halves;
  bool plain = false;                                 // rows of the left half [rows, R], times the right one [R, columns]
  Name shape_left, shape_right, columns, right_rows;  // constants
};

void split_lookup(onnx::GraphProto& graph, const onnx::NodeProto& node, const Lookup& lookup) {
  if (lookup.plain) {
    const Name row = node.output(0) + "/row";
    add_node(graph, "Gather", {lookup.halves.left, node.input(1)}, row);
    add_node(graph, "MatMul", {row, lookup.halves.right}, node.output(0)).set_name(node.name());
    return;
  }
  const Name base = node.output(0) + "/";
  add_integer(add_node(graph, "Cast", {node.input(1)}, base + "ids"), "to", TensorProto::INT64);
  add_node(graph, "Div", {base + "ids", lookup.right_rows}, base + "quotient");
  add_node(graph, "Mul", {base + "quotient", lookup.right_rows}, base + "whole");
  add_node(graph, "Sub", {base + "ids", base + "whole"}, base + "remainder");
  add_node(graph, "Gather", {lookup.halves.left, base + "quotient"}, base + "left_rows");
  add_node(graph, "Gather", {lookup.halves.right, base + "remainder"}, base + "right_rows");
  add_node(graph, "Reshape", {base + "left_rows", lookup.shape_left}, base + "left");
  add_node(graph, "Reshape", {base + "right_rows", lookup.shape_right}, base + "right");
  add_node(graph, "MatMul", {base + "left", base + "right"}, base + "product");
  add_node(graph, "Shape", {node.input(1)}, base + "shape");
  add_integer(add_node(graph, "Concat", {base + "shape", lookup.columns}, base + "row_shape"), "axis", 0);
  onnx::NodeProto& last = add_node(graph, "Reshape", {base + "product", base + "row_shape"}, node.output(0));
  last.set_name(node.name());
}

// What the chains of a model become: constants by the name of the initialiser.
struct Put {
  std::map<std::string, LinearConstants> linear;
  std::map<std::string, Lookup> tables;
};

}  // namespace

std::vector<OnnxWeight> find_weights(const onnx::ModelProto& model) {
  const onnx::GraphProto& graph = model.graph();
  std::vector<OnnxWeight> weights;
  const std::map<std::string, Found> uses = uses_of(graph);
  for (const TensorProto& tensor : graph.initializer()) {
    const auto found = uses.find(tensor.name());
    if (found == uses.end() || found->second.mixed || tensor.dims_size() != 2 || !stored_type(tensor.data_type())) continue;
    OnnxWeight weight{tensor.name(),
                      found->second.use == Use::table,
                      found->second.use == Use::linear_transposed,
                      tensor.dims(0),
                      tensor.dims(1),
                      found->second.nodes,
                      found->second.type};
    if (weight.transposed) std::swap(weight.rows, weight.columns);
    if (weight.rows > 1 && weight.columns > 1) weights.push_back(std::move(weight));
  }
  return weights;
}

void write_weights_folder(io::OnnxFile& file, const std::string& path) {
  std::map<std::string, const TensorProto*> tensors;
  for (const TensorProto& tensor : file.model().graph().initializer()) tensors[tensor.name() + ".weight"] = &tensor;
  std::map<std::string, OnnxWeight> weights;
  std::vector<io::TensorToWrite> all;
  for (OnnxWeight& weight : find_weights(file.model())) {
    const io::FileShape shape = weight.table ? io::FileShape{weight.rows, weight.columns} : io::FileShape{weight.columns, weight.rows};
    all.push_back({weight.name + ".weight", *stored_type(tensors.at(weight.name + ".weight")->data_type()), shape});
    weights[all.back().name] = std::move(weight);
  }
  make_folders(path);
  io::write_safetensors(join_path(path, "model.safetensors"), all, {{"format", "pt"}}, [&](const io::TensorToWrite& tensor, io::TensorSink& sink) {
    const OnnxWeight& weight = weights.at(tensor.name);
    const std::vector<float> values = file.read_floats(*tensors.at(tensor.name));
    if (weight.table || weight.transposed) return sink.floats(values);
    sink.floats(transposed({weight.rows, weight.columns, values}).values);
  });
  write_file_atomic(join_path(path, "config.json"), "{}\n");
}

namespace {

// The type that the graph computes in with this weight.
Name as_type(Graph& graph, const Name& value, std::int32_t type) {
  return value.empty() || type == TensorProto::FLOAT ? value : graph.node("Cast", {value}, {{"to", std::int64_t{type}}});
}

void put_linear(GraphBuild& build, const Chain& chain, std::int32_t type, Put& put) {
  const LinearConstants halves = linear_constants(build, chain);
  put.linear[chain.name] = {as_type(build.graph, halves.left, type), as_type(build.graph, halves.right, type)};
}

void put_table(GraphBuild& build, const Chain& chain, std::int32_t type, Put& put) {
  Graph& graph = build.graph;
  if (!chain.table) {  // the table as the [out, in] of a linear weight: its rows are columns of the chain
    const Factors factors = factors_of(chain);
    const Matrix left = transposed(factors.right), right = transposed(factors.left);
    Lookup& lookup = put.tables[chain.name];
    lookup.plain = true;
    lookup.halves.left = as_type(graph, graph.weight(chain.name + ".left", {left.rows, left.columns}, left.values), type);
    lookup.halves.right = as_type(graph, graph.weight(chain.name + ".right", {right.rows, right.columns}, right.values), type);
    return;
  }
  TableConstants halves = table_constants(build, chain);
  const bool plain = halves.right_rows == 1 && halves.left_columns == 1;
  if (plain) halves.right = graph.reshape(halves.right, {halves.rank, halves.right_columns});
  halves.left = as_type(graph, halves.left, type);
  halves.right = as_type(graph, halves.right, type);
  put.tables[chain.name] = {halves,
                            plain,
                            graph.integers({-1, halves.left_columns, halves.rank}),
                            graph.integers({-1, halves.rank, halves.right_columns}),
                            graph.integers({chain.columns}),
                            graph.integer(halves.right_rows)};
}

// A node of the graph as it becomes; views of weights that are gone, too.
void rewrite(onnx::GraphProto& graph, onnx::NodeProto& node, const Put& put, const std::map<std::string, OnnxView>& views) {
  const auto weight = [&](int k) {
    return k < node.input_size() && views.contains(node.input(k)) ? views.at(node.input(k)).initialiser : std::string();
  };
  const bool gone = put.linear.contains(weight(0)) || put.tables.contains(weight(0));
  if (gone && makes_view(node, views)) return;
  if (node.op_type() == "Gather")
    if (const auto table = put.tables.find(weight(0)); table != put.tables.end()) return split_lookup(graph, node, table->second);
  if ((node.op_type() == "MatMul" || node.op_type() == "Gemm") && is_standard(node))
    if (const auto found = put.linear.find(weight(1)); found != put.linear.end()) return split_product(graph, std::move(node), found->second);
  *graph.add_node() = std::move(node);
}

std::int64_t opset_of(const onnx::ModelProto& model) {
  for (const onnx::OperatorSetIdProto& one : model.opset_import())
    if (one.domain().empty() || one.domain() == "ai.onnx") return one.version();
  return 0;
}

}  // namespace

std::int64_t put_chains(onnx::ModelProto& model, const WeightReader& weights, GraphForm form) {
  if (opset_of(model) < oldest_opset)
    fail_input("[tensorize] the graph is written for opset {}; chains need {} or later, convert it with onnx.version_converter", opset_of(model),
               oldest_opset);
  onnx::GraphProto& graph = *model.mutable_graph();
  std::map<std::string, std::int32_t> types;
  for (const TensorProto& tensor : graph.initializer()) types[tensor.name()] = tensor.data_type();
  const std::vector<OnnxWeight> found = find_weights(model);
  const bool half = std::any_of(found.begin(), found.end(), [&](const OnnxWeight& weight) { return types[weight.name] == TensorProto::FLOAT16; });
  Graph made(default_opset, half ? WeightType::f16 : WeightType::f32, "comera/");
  GraphBuild build{made, weights, form};
  Put put;
  for (const OnnxWeight& weight : found) {
    const io::ChainSpec* spec = weights.chain_spec(weight.name);
    const bool fits = spec && !spec->empty() && (weight.table || spec->kind == io::ChainKind::tt);
    if (!fits) continue;
    const Graph::Scope scope(made, weight.name);
    (weight.table ? put_table : put_linear)(build, weights.chain(*spec), weight.type, put);
  }
  const std::map<std::string, OnnxView> views = views_of(graph);
  const std::vector<onnx::NodeProto> nodes(graph.node().begin(), graph.node().end());
  *graph.mutable_node() = made.model().graph().node();
  for (onnx::NodeProto node : nodes) rewrite(graph, node, put, views);
  auto& initialisers = *graph.mutable_initializer();
  const auto gone = [&](const TensorProto& tensor) { return put.linear.contains(tensor.name()) || put.tables.contains(tensor.name()); };
  initialisers.erase(std::remove_if(initialisers.begin(), initialisers.end(), gone), initialisers.end());
  for (TensorProto& tensor : *made.model().mutable_graph()->mutable_initializer()) *graph.add_initializer() = std::move(tensor);
  return static_cast<std::int64_t>(put.linear.size() + put.tables.size());
}

}  // namespace comera::exporting
