// Replaces constants of any graph by chains.
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "lib/export/rewrite/onnx_graphs.h"
#include "lib/export/rewrite/onnx_split.h"
#include "lib/export/rewrite/onnx_weights.h"

namespace comera::exporting {
namespace {

using onnx::TensorProto;
using How = OnnxReader::How;

// Casts to the type in which the graph computes with this weight.
Name as_type(Graph& graph, const Name& value, std::int32_t type) {
  return value.empty() || type == TensorProto::FLOAT ? value
                                                     : graph.node("Cast", {value}, {{"to", std::int64_t{type}}});
}

// Adds chains as constants of the graph, and rewrites every node that reads one.
class Put {
 public:
  Put(GraphBuild& build, std::int64_t opset) : build_(build), opset_(opset) {}

  void add(const OnnxWeight& weight, const StoredChain& chain) {
    ++weights_;
    const OnnxConstant& constant = weight.constant;
    if (constant.node < 0)
      gone_initialisers_.insert({constant.graph, constant.name});
    else
      gone_nodes_.insert(constant.node);
    if (constant.other.empty()) gone_nodes_.insert(constant.views.begin(), constant.views.end());
    build_.graph.set_weight_type(constant.tensor->data_type() == TensorProto::FLOAT16 ? WeightType::f16
                                                                                      : WeightType::f32);
    if (chain.table() && !is_plain(chain)) return add_table(weight, chain);
    const LinearConstants whole = chain.table() ? plain_table(chain) : linear_constants(build_, chain);
    // The chain of a table has rows first. A pair that replaces a table has them last.
    const bool transposed = weight.transposed != (weight.table && !chain.table());
    if (!constant.other.empty()) restore(constant, whole, transposed);
    for (const OnnxReader& reader : constant.readers) {
      SplitPair& pair =
          pairs_[reader.node] = {reader.how, constants(weight, whole, reader, reader.turned != transposed), {}, {}};
      if (reader.how != How::columns || pair.factors.left.empty()) continue;
      pair.height = build_.graph.integers({constant.tensor->dims(reader.turned ? 1 : 0)});
      pair.any_size = build_.graph.integers({-1});
    }
  }

  std::int64_t weights() const { return weights_; }

  // Call once. The nodes that merge cores are put first in the main graph, so that its subgraphs can read them.
  void rewrite(onnx::ModelProto& model) {
    const bool lists = lists_initialisers(model);
    onnx::GraphProto& graph = *model.mutable_graph();
    rewrite(graph);
    onnx::GraphProto& made = *build_.graph.model().mutable_graph();
    std::vector<onnx::NodeProto> nodes(std::make_move_iterator(graph.mutable_node()->begin()),
                                       std::make_move_iterator(graph.mutable_node()->end()));
    *graph.mutable_node() = std::move(*made.mutable_node());
    for (onnx::NodeProto& node : nodes) *graph.add_node() = std::move(node);
    for (TensorProto& tensor : *made.mutable_initializer()) {
      if (lists) declare_input(graph, tensor);
      *graph.add_initializer() = std::move(tensor);
    }
  }

 private:
  // True for a pair of factors: one right factor for all rows, and no padding rows.
  static bool is_plain(const StoredChain& chain) {
    const tt::Sizes rows = chain.layout().in_modes(), columns = chain.layout().out_modes();
    const auto first = static_cast<std::ptrdiff_t>(chain.layout().middle());
    const auto is_one = [](std::int64_t size) { return size == 1; };
    return chain.layout().rows() == chain.rows && std::all_of(rows.begin() + first, rows.end(), is_one) &&
           std::all_of(columns.begin(), columns.begin() + first, is_one);
  }

  // Restores the matrix under its own name, for nodes that read it as it is. A runtime multiplies it out when it loads
  // the graph.
  void restore(const OnnxConstant& constant, const LinearConstants& factors, bool transposed) {
    Graph& graph = build_.graph;
    const auto& dims = constant.tensor->dims();
    Name product = factors.left.empty() ? factors.right : graph.node("MatMul", {factors.left, factors.right});
    if (transposed) product = graph.transpose(product, {1, 0});
    if (dims.size() > 2) product = graph.reshape(product, {dims.begin(), dims.end()});
    onnx::NodeProto node;
    node.set_op_type("Identity");
    node.set_name(constant.name);
    node.add_input(as_type(graph, product, constant.tensor->data_type()));
    node.add_output(constant.name);
    if (constant.node < 0)
      restored_initialisers_[constant.graph].push_back(std::move(node));
    else
      restored_nodes_[constant.node] = std::move(node);
  }

  LinearConstants plain_table(const StoredChain& chain) {
    const TableConstants factors = table_constants(build_, chain);
    return {factors.left, build_.graph.reshape(factors.right, {factors.rank, factors.right_columns})};
  }

  void add_table(const OnnxWeight& weight, const StoredChain& chain) {
    Graph& graph = build_.graph;
    const TableConstants factors = table_constants(build_, chain);
    for (const OnnxReader& reader : weight.constant.readers) {
      TableConstants typed = factors;
      typed.left = typed_once(weight.name, factors.left, reader.type);
      typed.right = typed_once(weight.name, factors.right, reader.type);
      tables_[reader.node] = {.factors = typed,
                              .as_columns = reader.how == How::columns,
                              .from_the_end = opset_ >= 11,
                              .shape_left = graph.integers({-1, factors.left_columns, factors.rank}),
                              .shape_right = graph.integers({-1, factors.rank, factors.right_columns}),
                              .shape_rows = reader.how == How::columns ? graph.integers({-1, chain.columns}) : "",
                              .width = graph.integers({chain.columns}),
                              .rows = opset_ >= 11 ? graph.integer(chain.rows) : "",
                              .right_rows = graph.integer(factors.right_rows)};
    }
  }

  Name typed_once(const std::string& weight, const Name& value, std::int32_t type) {
    const auto [found, fresh] = typed_.try_emplace({weight + "\n" + value, false, type, How::rows});
    if (fresh) found->second = {"", as_type(build_.graph, value, type)};
    return found->second.right;
  }

  // The factors in the form that a reader needs. Equal forms are stored once.
  LinearConstants constants(const OnnxWeight& weight, const LinearConstants& whole, const OnnxReader& reader,
                            bool turned) {
    const auto& dims = weight.constant.tensor->dims();
    const auto [found, fresh] =
        typed_.try_emplace({weight.name, turned, reader.type, dims.size() > 2 ? reader.how : How::rows});
    if (!fresh) return found->second;
    Graph& graph = build_.graph;
    LinearConstants made = whole;
    if (turned && whole.left.empty()) made.right = graph.transpose(whole.right, {1, 0});
    if (turned && !whole.left.empty())
      made = {graph.transpose(whole.right, {1, 0}), graph.transpose(whole.left, {1, 0})};
    if (dims.size() > 2) {
      // The leading sizes of 1 go to the factor of the last product. So the result keeps its number of dimensions, also
      // for vectors.
      const bool left_last = reader.how == How::left && !made.left.empty();
      std::vector<std::int64_t> lifted(static_cast<std::size_t>(dims.size()), 1);
      lifted.end()[-2] = left_last || made.left.empty() ? dims.end()[reader.turned ? -1 : -2] : -1;
      lifted.end()[-1] = left_last ? -1 : dims.end()[reader.turned ? -2 : -1];
      Name& last = left_last ? made.left : made.right;
      last = graph.reshape(last, lifted);
    }
    return found->second = {as_type(graph, made.left, reader.type), as_type(graph, made.right, reader.type)};
  }

  void rewrite(onnx::GraphProto& graph) {
    const int number = graphs_++;
    std::set<std::string> gone;
    const auto is_gone = [&](const auto& one) { return gone.contains(one.name()); };
    for (const TensorProto& tensor : graph.initializer())
      if (gone_initialisers_.contains({number, tensor.name()})) gone.insert(tensor.name());
    const auto drop = [&](auto& list) { list.erase(std::remove_if(list.begin(), list.end(), is_gone), list.end()); };
    drop(*graph.mutable_initializer());
    drop(*graph.mutable_input());
    std::vector<onnx::NodeProto> nodes(std::make_move_iterator(graph.mutable_node()->begin()),
                                       std::make_move_iterator(graph.mutable_node()->end()));
    graph.clear_node();
    for (const onnx::NodeProto& node : restored_initialisers_[number]) *graph.add_node() = node;
    for (onnx::NodeProto& node : nodes) {
      const int index = nodes_++;
      for (onnx::GraphProto* inner : subgraphs(node)) rewrite(*inner);
      if (const auto restored = restored_nodes_.find(index); restored != restored_nodes_.end())
        *graph.add_node() = restored->second;
      else if (gone_nodes_.contains(index))
        gone.insert(node.output(0));
      else
        add_node(graph, std::move(node), index);
    }
    drop(*graph.mutable_value_info());
  }

  void add_node(onnx::GraphProto& graph, onnx::NodeProto node, int index) const {
    if (const auto table = tables_.find(index); table != tables_.end())
      return split(graph, node, table->second, opset_);
    if (const auto pair = pairs_.find(index); pair != pairs_.end())
      return split(graph, std::move(node), pair->second, opset_);
    *graph.add_node() = std::move(node);
  }

  static void declare_input(onnx::GraphProto& graph, const TensorProto& tensor) {
    onnx::ValueInfoProto& input = *graph.add_input();
    input.set_name(tensor.name());
    onnx::TypeProto::Tensor& type = *input.mutable_type()->mutable_tensor_type();
    type.set_elem_type(tensor.data_type());
    type.mutable_shape();
    for (const std::int64_t size : tensor.dims()) type.mutable_shape()->add_dim()->set_dim_value(size);
  }

  GraphBuild& build_;
  std::int64_t opset_;
  std::int64_t weights_ = 0;
  std::set<std::pair<int, std::string>> gone_initialisers_;  // by graph number
  std::set<int> gone_nodes_;
  std::map<int, std::vector<onnx::NodeProto>> restored_initialisers_;  // by graph number
  std::map<int, onnx::NodeProto> restored_nodes_;
  std::map<int, SplitPair> pairs_;  // by node number
  std::map<int, SplitTable> tables_;
  std::map<std::tuple<std::string, bool, std::int32_t, How>, LinearConstants> typed_;
  int graphs_ = 0, nodes_ = 0;
};

// A prefix that no name in the model starts with.
std::string free_prefix(const onnx::GraphProto& graph) {
  const std::set<std::string> names = names_in(graph);
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
  const std::int64_t opset = opset_of(model);
  Graph made(static_cast<int>(opset), WeightType::f32, free_prefix(model.graph()));
  GraphBuild build{made, weights, form};
  Put put(build, opset);
  for (const OnnxWeight& weight : find_weights(model)) {
    const io::ChainSpec* spec = weights.chain_spec(weight.name);
    const bool fits = spec && !spec->layout.empty() && (weight.table || !spec->table());
    if (!fits) continue;
    const Graph::Scope scope(made, weight.name);
    put.add(weight, weights.chain(*spec));
  }
  put.rewrite(model);
  const std::int64_t before = chains_of(model);
  note(model, "comera.form", name_of(form));
  note(model, "comera.chains", std::to_string(before + put.weights()));
  return put.weights();
}

}  // namespace comera::exporting
