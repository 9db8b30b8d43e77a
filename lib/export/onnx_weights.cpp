#include "lib/export/onnx_weights.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "lib/core/error.h"
#include "lib/core/log.h"
#include "lib/core/units.h"
#include "lib/export/onnx_views.h"

namespace comera::exporting {
namespace {

using onnx::TensorProto;
using How = OnnxReader::How;

std::optional<io::StoredType> stored_type(std::int32_t type) {
  switch (type) {
    case TensorProto::FLOAT: return io::StoredType::F32;
    case TensorProto::FLOAT16: return io::StoredType::F16;
    case TensorProto::BFLOAT16: return io::StoredType::BF16;
    default: return std::nullopt;
  }
}

struct Use {
  std::vector<OnnxReader> readers;
  std::string obstacle;  // the first reason to leave it as it is

  void refuse(std::string why) {
    if (obstacle.empty()) obstacle = std::move(why);
  }
};

// What reads which initialiser, whatever view of it.
class Uses {
 public:
  explicit Uses(const onnx::GraphProto& graph) : graph_(graph), views_(views_of(graph)) {
    for (int i = 0; i < graph.node_size(); ++i) {
      if (makes_view(graph.node(i), views_)) continue;
      for (int k = 0; k < graph.node(i).input_size(); ++k)
        if (const auto view = views_.find(graph.node(i).input(k)); view != views_.end()) add(i, k, view->second);
    }
    for (const onnx::ValueInfoProto& output : graph.output()) refuse(output.name(), "it is an output of the graph");
    for (const onnx::ValueInfoProto& input : graph.input()) refuse(input.name(), "it is an input of the graph, which a caller may replace");
    for (const std::string& name : names_in_subgraphs(graph)) refuse(name, "it is read within a subgraph (If, Loop or Scan), where no chain is put");
  }

  const Use* of(const std::string& initialiser) const {
    const auto found = uses_.find(initialiser);
    return found == uses_.end() ? nullptr : &found->second;
  }

 private:
  void refuse(const std::string& name, const char* why) {
    if (const auto view = views_.find(name); view != views_.end()) uses_[view->second.initialiser].refuse(why);
  }

  void add(int index, int input, const OnnxView& view) {
    const onnx::NodeProto& node = graph_.node(index);
    Use& use = uses_[view.initialiser];
    const bool gemm = is_standard(node) && node.op_type() == "Gemm", product = gemm || (is_standard(node) && node.op_type() == "MatMul");
    const bool gather = is_standard(node) && node.op_type() == "Gather" && input == 0;
    const std::string named = io::onnx_node_name(node);
    if (product && input == 0 && views_.contains(node.input(1))) return use.refuse(named + " multiplies it with another constant");
    if (product && input < 2) {
      const bool flips = gemm && integer_of(node, input == 0 ? "transA" : "transB", 0) != 0;
      use.readers.push_back({index, input == 0 ? How::left : How::right, view.turned != flips, view.type});
    } else if (const std::int64_t axis = gather ? integer_of(node, "axis", 0) : 0; gather && (axis == 0 || axis == -2)) {
      use.readers.push_back({index, How::lookup, view.turned, view.type});
    } else if (gather) {
      use.refuse(fmt::format("{} looks it up along axis {}; of a chain only rows (axis 0) are looked up", named, axis));
    } else if (is_standard(node) && node.op_type() == "DequantizeLinear") {
      use.refuse(fmt::format("it is quantised, {} reads it; tensorize the model before it is quantised", named));
    } else {
      use.refuse(fmt::format("{} reads it, and a chain can stand only where MatMul or Gemm multiplies with it or Gather looks it up", named));
    }
  }

  const onnx::GraphProto& graph_;
  std::map<std::string, OnnxView> views_;
  std::map<std::string, Use> uses_;
};

// The reason to leave the tensor as it is; empty: there is none.
std::string obstacle_of(const TensorProto& tensor, const Use& use) {
  if (tensor.dims_size() > 2) {
    const std::string why = fmt::format("it has {} dimensions, and a chain stands for one matrix", tensor.dims_size());
    return use.obstacle.empty() ? why : why + "; " + use.obstacle;
  }
  if (!use.obstacle.empty()) return use.obstacle;
  if (!stored_type(tensor.data_type()))
    return fmt::format("it is of type {}; chains are FLOAT, FLOAT16 or BFLOAT16", io::onnx_type_name(tensor.data_type()));
  if (tensor.dims(0) < 2 || tensor.dims(1) < 2) return "it has a single row or column";
  return "";
}

OnnxWeight weight_of(const TensorProto& tensor, const Use& use) {
  OnnxWeight weight{tensor.name(), false, false, tensor.dims(0), tensor.dims(1), use.readers};
  const auto looks_up = [](const OnnxReader& reader) { return reader.how == How::lookup; };
  weight.table = std::all_of(use.readers.begin(), use.readers.end(), [&](const OnnxReader& reader) { return looks_up(reader) && !reader.turned; });
  if (weight.table) return weight;
  // What the first product takes for its inputs is what the layer calls them.
  const auto first = std::find_if_not(use.readers.begin(), use.readers.end(), looks_up);
  const OnnxReader& reader = first == use.readers.end() ? use.readers.front() : *first;
  weight.transposed = reader.turned == (reader.how == How::right);
  if (weight.transposed) std::swap(weight.rows, weight.columns);
  return weight;
}

const std::string* note_of(const onnx::ModelProto& model, const char* key) {
  for (const onnx::StringStringEntryProto& entry : model.metadata_props())
    if (entry.key() == key) return &entry.value();
  return nullptr;
}

// An initialiser that export or put_chains() makes of a chain.
bool is_part_of_chain(const std::string& name) {
  const auto dot = name.rfind('.');
  if (dot == std::string::npos) return false;
  const std::string last = name.substr(dot + 1), before = name.substr(0, dot);
  if (before.ends_with(".tt")) return parse_integer(last).has_value();
  return last == "left" || last == "right" || last == "one" || name.ends_with(".exact.rows");
}

}  // namespace

std::int64_t chains_of(const onnx::ModelProto& model) {
  const std::string *form = note_of(model, "comera.form"), *chains = note_of(model, "comera.chains");
  if (!form || !chains || *form == name_of(GraphForm::dense)) return 0;
  return std::max<std::int64_t>(0, parse_integer(*chains).value_or(0));
}

OnnxMatrices find_matrices(const onnx::ModelProto& model) {
  const onnx::GraphProto& graph = model.graph();
  const bool has_chains = chains_of(model) > 0;
  const Uses uses(graph);
  OnnxMatrices found;
  for (const TensorProto& tensor : graph.initializer()) {
    const Use* use = uses.of(tensor.name());
    if (!use || tensor.dims_size() < 2) continue;
    if (has_chains && is_part_of_chain(tensor.name())) continue;
    std::string why = obstacle_of(tensor, *use);
    if (why.empty()) {
      found.weights.push_back(weight_of(tensor, *use));
      continue;
    }
    found.left_out.push_back({fmt::format("{} [{}]", printable(tensor.name()), fmt::join(tensor.dims(), ", ")),
                              static_cast<std::uint64_t>(io::onnx_elements(tensor, tensor.name())), std::move(why)});
  }
  std::stable_sort(found.left_out.begin(), found.left_out.end(), [](const OnnxLeftOut& a, const OnnxLeftOut& b) { return a.elements > b.elements; });
  return found;
}

std::vector<OnnxWeight> find_weights(const onnx::ModelProto& model) { return find_matrices(model).weights; }

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
    for (std::size_t i = 0; i < values.size(); ++i)
      if (!std::isfinite(values[i]))
        fail_input("{}: initialiser {}: its element {} is {}; the file is damaged or its training diverged, use another one", file.path(),
                   printable(weight.name), i, values[i]);
    if (weight.table || weight.transposed) return sink.floats(values);
    sink.floats(transposed({weight.rows, weight.columns, values}).values);
  });
  write_file_atomic(join_path(path, "config.json"), "{}\n");
}

}  // namespace comera::exporting
