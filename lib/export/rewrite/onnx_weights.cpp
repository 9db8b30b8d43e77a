#include "lib/export/rewrite/onnx_weights.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "lib/core/error.h"
#include "lib/core/join.h"
#include "lib/core/terminal/log.h"
#include "lib/core/units.h"
#include "lib/export/rewrite/onnx_graphs.h"

namespace comera::exporting {
namespace {

using onnx::TensorProto;

// Chains have at most single precision. If a graph computes in double, they are cast to double.
std::optional<io::StoredType> stored_type(std::int32_t type) {
  switch (type) {
    case TensorProto::FLOAT:
    case TensorProto::DOUBLE: return io::StoredType::F32;
    case TensorProto::FLOAT16: return io::StoredType::F16;
    case TensorProto::BFLOAT16: return io::StoredType::BF16;
    default: return std::nullopt;
  }
}

bool is_matrix(const TensorProto& tensor) {
  return tensor.dims_size() >= 2 &&
         std::all_of(tensor.dims().begin(), tensor.dims().end() - 2, [](std::int64_t size) { return size == 1; });
}

// The reason why the constant must stay as it is; empty if there is none.
std::string obstacle_of(const OnnxConstant& constant) {
  const TensorProto& tensor = *constant.tensor;
  if (!is_matrix(tensor)) {
    const std::string why = fmt::format("it has {} dimensions, and a chain stands for one matrix", tensor.dims_size());
    const std::string& more = constant.obstacle.empty() ? constant.other : constant.obstacle;
    return more.empty() ? why : why + "; " + more;
  }
  if (!constant.obstacle.empty()) return constant.obstacle;
  if (constant.readers.empty()) return constant.other;
  if (!stored_type(tensor.data_type()))
    return fmt::format("it is of type {}; a chain stands for FLOAT, DOUBLE, FLOAT16 or BFLOAT16",
                       io::onnx_type_name(tensor.data_type()));
  if (tensor.dims().end()[-2] < 2 || tensor.dims().end()[-1] < 2) return "it has a single row or column";
  return "";
}

OnnxWeight weight_of(OnnxConstant constant, std::string name) {
  const auto& dims = constant.tensor->dims();
  const std::vector<OnnxReader>& readers = constant.readers;
  OnnxWeight weight{std::move(name), false, false, dims.end()[-2], dims.end()[-1], {}};
  const auto looks_up = [](const OnnxReader& reader) { return reader.looks_up(); };
  weight.table = constant.other.empty() && std::all_of(readers.begin(), readers.end(), [&](const OnnxReader& reader) {
                   return reader.looks_up() && reader.looks_up_columns() == readers.front().looks_up_columns();
                 });
  // The inputs of the first product define the inputs of the layer.
  const auto first = std::find_if_not(readers.begin(), readers.end(), looks_up);
  const OnnxReader& reader = first == readers.end() ? readers.front() : *first;
  weight.transposed =
      weight.table ? reader.looks_up_columns() : reader.turned == (reader.how == OnnxReader::How::right);
  if (weight.transposed) std::swap(weight.rows, weight.columns);
  weight.constant = std::move(constant);
  return weight;
}

// Makes weight names unique. The names of their chains must also differ from all names in the model.
class WeightNames {
 public:
  explicit WeightNames(const onnx::GraphProto& graph) : known_(names_in(graph)) {}

  std::string name(const std::string& wanted) {
    std::string name = wanted;
    for (int n = 2; !is_free(name); ++n) name = fmt::format("{}_{}", wanted, n);
    taken_.insert(name);
    return name;
  }

 private:
  bool is_free(const std::string& name) const {
    const std::string cores = name + ".tt.";
    const auto next = known_.lower_bound(cores);
    return !taken_.contains(name) && (next == known_.end() || !next->starts_with(cores));
  }

  std::set<std::string> known_, taken_;
};

OnnxLeftOut left_out(const TensorProto& tensor, const std::string& name, std::string why) {
  return {fmt::format("{} [{}]", printable(name), join(tensor.dims(), ", ")),
          static_cast<std::uint64_t>(io::onnx_elements(tensor, name)), std::move(why)};
}

// Reports the matrices that products and lookups inside a function read. A function cannot read values outside of it.
void add_functions(const onnx::ModelProto& model, std::vector<OnnxLeftOut>& found) {
  for (const onnx::FunctionProto& function : model.functions())
    for (const onnx::NodeProto& node : function.node()) {
      const onnx::AttributeProto* value =
          node.op_type() == "Constant" && node.output_size() == 1 ? attribute_of(node, "value") : nullptr;
      if (value && value->t().dims_size() >= 2 && stored_type(value->t().data_type()))
        found.push_back(
            left_out(value->t(), node.output(0),
                     fmt::format("it is a constant of function {}, where no chain is put; inline it with onnx.inliner",
                                 printable(function.name()))));
    }
}

const std::string* note_of(const onnx::ModelProto& model, const char* key) {
  for (const onnx::StringStringEntryProto& entry : model.metadata_props())
    if (entry.key() == key) return &entry.value();
  return nullptr;
}

// True for an initialiser that an export or put_chains() creates for a chain.
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
  const bool has_chains = chains_of(model) > 0;
  WeightNames names(model.graph());
  OnnxMatrices found;
  for (OnnxConstant& constant : constants_of(model)) {
    if (!constant.is_used() || constant.tensor->dims_size() < 2) continue;
    if (has_chains && is_part_of_chain(constant.name)) continue;
    std::string why = obstacle_of(constant);
    if (why.empty()) {
      std::string name = names.name(constant.name);
      found.weights.push_back(weight_of(std::move(constant), std::move(name)));
    } else {
      found.left_out.push_back(left_out(*constant.tensor, constant.name, std::move(why)));
    }
  }
  add_functions(model, found.left_out);
  std::stable_sort(found.left_out.begin(), found.left_out.end(),
                   [](const OnnxLeftOut& a, const OnnxLeftOut& b) { return a.elements > b.elements; });
  return found;
}

std::vector<OnnxWeight> find_weights(const onnx::ModelProto& model) { return find_matrices(model).weights; }

void write_weights_folder(io::OnnxFile& file, const std::string& path) {
  std::map<std::string, OnnxWeight> weights;
  std::vector<io::TensorToWrite> all;
  for (OnnxWeight& weight : find_weights(file.model())) {
    const io::FileShape shape =
        weight.table ? io::FileShape{weight.rows, weight.columns} : io::FileShape{weight.columns, weight.rows};
    all.push_back({weight.name + ".weight", *stored_type(weight.constant.tensor->data_type()), shape});
    weights[all.back().name] = std::move(weight);
  }
  make_folders(path);
  io::write_safetensors(join_path(path, "model.safetensors"), all, {{"format", "pt"}},
                        [&](const io::TensorToWrite& tensor, io::TensorSink& sink) {
                          const OnnxWeight& weight = weights.at(tensor.name);
                          const std::vector<float> values = file.read_floats(*weight.constant.tensor);
                          for (std::size_t i = 0; i < values.size(); ++i)
                            if (!std::isfinite(values[i]))
                              fail_input(
                                  "{}: initialiser {}: its element {} is {}; the file is damaged or its training "
                                  "diverged, use another one",
                                  file.path(), printable(weight.name), i, values[i]);
                          if (weight.table != weight.transposed) return sink.floats(values);
                          const auto& dims = weight.constant.tensor->dims();
                          sink.floats(tt::transposed(Matrix(dims.end()[-2], dims.end()[-1], values)).values);
                        });
  write_file_atomic(join_path(path, "config.json"), "{}\n");
}

}  // namespace comera::exporting
