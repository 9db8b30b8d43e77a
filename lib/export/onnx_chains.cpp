// Chains in the place of the initialisers of any graph.
#include <algorithm>
#include <map>
#include <tuple>

#include "lib/core/error.h"
#include "lib/export/onnx_views.h"
#include "lib/export/onnx_weights.h"

namespace comera::exporting {
namespace {

using onnx::TensorProto;
using How = OnnxReader::How;

onnx::NodeProto& add_node(onnx::GraphProto& graph, const std::string& op, const std::vector<Name>& inputs, const Name& output) {
  onnx::NodeProto& node = *graph.add_node();
  node.set_op_type(op);
  node.set_name(output);
  for (const Name& input : inputs) node.add_input(input);
  node.add_output(output);
  return node;
}

void set_integer(onnx::NodeProto& node, const char* name, std::int64_t value) {
  onnx::AttributeProto* attribute = nullptr;
  for (onnx::AttributeProto& one : *node.mutable_attribute())
    if (one.name() == name) attribute = &one;
  if (!attribute) attribute = node.add_attribute();
  attribute->set_name(name);
  attribute->set_type(onnx::AttributeProto::INT);
  attribute->set_i(value);
}

// A product with a constant as two products; a Gemm keeps its scale and its bias in the second. The other operand may be read as its transpose.
void split_product(onnx::GraphProto& graph, onnx::NodeProto node, How how, const LinearConstants& halves) {
  const bool constant_first = how == How::left;
  const int constant = constant_first ? 0 : 1, other = 1 - constant;
  const char* const flips[] = {"transA", "transB"};
  if (integer_of(node, flips[constant], 0) != 0) set_integer(node, flips[constant], 0);
  if (halves.left.empty()) {
    node.set_input(constant, halves.right);
  } else {
    const Name middle = node.output(0) + (constant_first ? "/right" : "/left"), x = node.input(other);
    const bool turned = integer_of(node, flips[other], 0) != 0;
    onnx::NodeProto& first =
        add_node(graph, turned ? "Gemm" : "MatMul", constant_first ? std::vector{halves.right, x} : std::vector{x, halves.left}, middle);
    if (turned) {
      set_integer(first, flips[other], 1);
      set_integer(node, flips[other], 0);
    }
    node.set_input(other, middle);
    node.set_input(constant, constant_first ? halves.left : halves.right);
  }
  *graph.add_node() = std::move(node);
}

// A lookup in a product of two factors: rows of the first, times the second.
void split_rows(onnx::GraphProto& graph, onnx::NodeProto node, const LinearConstants& halves) {
  if (halves.left.empty()) {
    node.set_input(0, halves.right);
    *graph.add_node() = std::move(node);
    return;
  }
  const Name row = node.output(0) + "/row";
  add_node(graph, "Gather", {halves.left, node.input(1)}, row);
  add_node(graph, "MatMul", {row, halves.right}, node.output(0)).set_name(node.name());
}

// A lookup by ids of any shape as two lookups and a product: quotient and remainder of the id, and a last size that is the table's.
struct Lookup {
  TableConstants halves;
  Name shape_left, shape_right, columns, right_rows;  // constants
};

void split_lookup(onnx::GraphProto& graph, const onnx::NodeProto& node, const Lookup& lookup) {
  const Name base = node.output(0) + "/";
  set_integer(add_node(graph, "Cast", {node.input(1)}, base + "ids"), "to", TensorProto::INT64);
  add_node(graph, "Div", {base + "ids", lookup.right_rows}, base + "quotient");
  add_node(graph, "Mul", {base + "quotient", lookup.right_rows}, base + "whole");
  add_node(graph, "Sub", {base + "ids", base + "whole"}, base + "remainder");
  add_node(graph, "Gather", {lookup.halves.left, base + "quotient"}, base + "left_rows");
  add_node(graph, "Gather", {lookup.halves.right, base + "remainder"}, base + "right_rows");
  add_node(graph, "Reshape", {base + "left_rows", lookup.shape_left}, base + "left");
  add_node(graph, "Reshape", {base + "right_rows", lookup.shape_right}, base + "right");
  add_node(graph, "MatMul", {base + "left", base + "right"}, base + "product");
  add_node(graph, "Shape", {node.input(1)}, base + "shape");
  set_integer(add_node(graph, "Concat", {base + "shape", lookup.columns}, base + "row_shape"), "axis", 0);
  onnx::NodeProto& last = add_node(graph, "Reshape", {base + "product", base + "row_shape"}, node.output(0));
  last.set_name(node.name());
}

// The type that the graph computes in with this weight.
Name as_type(Graph& graph, const Name& value, std::int32_t type) {
  return value.empty() || type == TensorProto::FLOAT ? value : graph.node("Cast", {value}, {{"to", std::int64_t{type}}});
}

// Chains as constants of the graph, and how every node that reads one reads it.
class Put {
 public:
  explicit Put(GraphBuild& build) : build_(build) {}

  void add(const OnnxWeight& weight, const Chain& chain) {
    gone_.insert(weight.name);
    if (chain.table && add_table(weight, chain)) return;
    const LinearConstants whole = chain.table ? plain_table(chain) : linear_constants(build_, chain);
    // A table's own chain has its rows first, the pair that it may be in place of one has them last.
    const bool transposed = !chain.table && (weight.table || weight.transposed);
    for (const OnnxReader& reader : weight.readers)
      pairs_[reader.node] = {reader.how, constants(weight.name, whole, reader.turned != transposed, reader.type)};
  }

  bool is_gone(const std::string& weight) const { return gone_.contains(weight); }
  std::int64_t weights() const { return static_cast<std::int64_t>(gone_.size()); }

  void rewrite(onnx::GraphProto& graph, onnx::NodeProto node, int index) const {
    if (const auto lookup = lookups_.find(index); lookup != lookups_.end()) return split_lookup(graph, node, lookup->second);
    const auto pair = pairs_.find(index);
    if (pair == pairs_.end()) {
      *graph.add_node() = std::move(node);
    } else if (pair->second.how == How::lookup) {
      split_rows(graph, std::move(node), pair->second.halves);
    } else {
      split_product(graph, std::move(node), pair->second.how, pair->second.halves);
    }
  }

 private:
  struct Pair {
    How how = How::right;
    LinearConstants halves;
  };

  // One right half for all rows: a pair of factors.
  static bool is_plain(const Chain& chain) {
    const auto first = static_cast<std::ptrdiff_t>(chain.middle());
    const auto is_one = [](std::int64_t size) { return size == 1; };
    return std::all_of(chain.left_modes.begin() + first, chain.left_modes.end(), is_one) &&
           std::all_of(chain.right_modes.begin(), chain.right_modes.begin() + first, is_one);
  }

  LinearConstants plain_table(const Chain& chain) {
    const TableConstants halves = table_constants(build_, chain);
    return {halves.left, build_.graph.reshape(halves.right, {halves.rank, halves.right_columns})};
  }

  bool add_table(const OnnxWeight& weight, const Chain& chain) {
    if (is_plain(chain)) return false;
    Graph& graph = build_.graph;
    const TableConstants halves = table_constants(build_, chain);
    for (const OnnxReader& reader : weight.readers) {
      TableConstants typed = halves;
      typed.left = typed_once(weight.name, halves.left, reader.type);
      typed.right = typed_once(weight.name, halves.right, reader.type);
      lookups_[reader.node] = {typed, graph.integers({-1, halves.left_columns, halves.rank}), graph.integers({-1, halves.rank, halves.right_columns}),
                               graph.integers({chain.columns}), graph.integer(halves.right_rows)};
    }
    return true;
  }

  Name typed_once(const std::string& weight, const Name& value, std::int32_t type) {
    const auto [found, fresh] = typed_.try_emplace({weight + "\n" + value, false, type});
    if (fresh) found->second = {"", as_type(build_.graph, value, type)};
    return found->second.right;
  }

  // The factors as a reader wants them; equal wishes are stored once.
  LinearConstants constants(const std::string& weight, const LinearConstants& whole, bool turned, std::int32_t type) {
    const auto [found, fresh] = typed_.try_emplace({weight, turned, type});
    if (!fresh) return found->second;
    Graph& graph = build_.graph;
    LinearConstants made = whole;
    if (turned && whole.left.empty()) made.right = graph.transpose(whole.right, {1, 0});
    if (turned && !whole.left.empty()) made = {graph.transpose(whole.right, {1, 0}), graph.transpose(whole.left, {1, 0})};
    return found->second = {as_type(graph, made.left, type), as_type(graph, made.right, type)};
  }

  GraphBuild& build_;
  std::set<std::string> gone_;
  std::map<int, Pair> pairs_;  // by the index of the node
  std::map<int, Lookup> lookups_;
  std::map<std::tuple<std::string, bool, std::int32_t>, LinearConstants> typed_;
};

// What nothing in the graph begins with.
std::string free_prefix(const onnx::GraphProto& graph) {
  std::set<std::string> names;
  for (const TensorProto& tensor : graph.initializer()) names.insert(tensor.name());
  for (const onnx::NodeProto& node : graph.node()) names.insert(node.output().begin(), node.output().end());
  for (int n = 1;; ++n) {
    std::string prefix = n == 1 ? "comera/" : fmt::format("comera_{}/", n);
    const auto next = names.lower_bound(prefix);
    if (next == names.end() || !next->starts_with(prefix)) return prefix;
  }
}

void note(onnx::ModelProto& model, const std::string& key, const std::string& value) {
  onnx::StringStringEntryProto* entry = nullptr;
  for (onnx::StringStringEntryProto& one : *model.mutable_metadata_props())
    if (one.key() == key) entry = &one;
  if (!entry) entry = model.add_metadata_props();
  entry->set_key(key);
  entry->set_value(value);
}

}  // namespace

std::int64_t put_chains(onnx::ModelProto& model, const WeightReader& weights, GraphForm form) {
  onnx::GraphProto& graph = *model.mutable_graph();
  std::map<std::string, std::int32_t> types;
  for (const TensorProto& tensor : graph.initializer()) types[tensor.name()] = tensor.data_type();
  const std::vector<OnnxWeight> found = find_weights(model);
  const bool half = std::any_of(found.begin(), found.end(), [&](const OnnxWeight& weight) { return types[weight.name] == TensorProto::FLOAT16; });
  Graph made(default_opset, half ? WeightType::f16 : WeightType::f32, free_prefix(graph));
  GraphBuild build{made, weights, form};
  Put put(build);
  for (const OnnxWeight& weight : found) {
    const io::ChainSpec* spec = weights.chain_spec(weight.name);
    const bool fits = spec && !spec->empty() && (weight.table || spec->kind == io::ChainKind::tt);
    if (!fits) continue;
    const Graph::Scope scope(made, weight.name);
    put.add(weight, weights.chain(*spec));
  }
  const std::map<std::string, OnnxView> views = views_of(graph);
  const std::vector<onnx::NodeProto> nodes(graph.node().begin(), graph.node().end());
  *graph.mutable_node() = made.model().graph().node();
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const bool gone = makes_view(nodes[i], views) && put.is_gone(views.at(nodes[i].input(0)).initialiser);
    if (!gone) put.rewrite(graph, nodes[i], static_cast<int>(i));
  }
  auto& initialisers = *graph.mutable_initializer();
  initialisers.erase(std::remove_if(initialisers.begin(), initialisers.end(), [&](const TensorProto& tensor) { return put.is_gone(tensor.name()); }),
                     initialisers.end());
  for (TensorProto& tensor : *made.model().mutable_graph()->mutable_initializer()) *graph.add_initializer() = std::move(tensor);
  const std::int64_t before = chains_of(model);
  note(model, "comera.form", name_of(form));
  note(model, "comera.chains", std::to_string(before + put.weights()));
  return put.weights();
}

}  // namespace comera::exporting
