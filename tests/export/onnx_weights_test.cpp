#include "lib/export/onnx_weights.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "lib/export/onnx_views.h"
#include "tests/core/temporary_folder.h"
#include "tests/export/chains_in_graphs.h"

using namespace comera;
using namespace comera::exporting;
using onnx::TensorProto;

namespace {

TensorProto& add_matrix(onnx::GraphProto& graph, const std::string& name, std::int64_t rows, std::int64_t columns, const std::vector<float>& values) {
  TensorProto& tensor = *graph.add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(TensorProto::FLOAT);
  tensor.add_dims(rows);
  tensor.add_dims(columns);
  tensor.mutable_raw_data()->assign(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  return tensor;
}

onnx::NodeProto& add_node(onnx::GraphProto& graph, const char* op, const std::vector<std::string>& inputs, const std::string& output) {
  onnx::NodeProto& node = *graph.add_node();
  node.set_op_type(op);
  node.set_name(output);
  for (const std::string& input : inputs) node.add_input(input);
  node.add_output(output);
  return node;
}

onnx::ModelProto empty_model() {
  onnx::ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(17);
  return model;
}

// y = f(words[ids] first) second, where f is an operator of somebody else, and third, which is used in two ways.
onnx::ModelProto small_model() {
  onnx::ModelProto model = empty_model();
  onnx::GraphProto& graph = *model.mutable_graph();
  graph.add_input()->set_name("ids");
  graph.add_output()->set_name("y");
  add_matrix(graph, "words", 6, 4, random_floats(24, 1));
  add_matrix(graph, "first", 4, 6, random_floats(24, 2));
  add_matrix(graph, "second", 5, 6, random_floats(30, 3));
  add_matrix(graph, "third", 5, 5, random_floats(25, 4));
  add_node(graph, "Gather", {"words", "ids"}, "x");
  add_node(graph, "MatMul", {"x", "first"}, "h");
  add_node(graph, "Tanh", {"h"}, "t");
  onnx::NodeProto& gemm = add_node(graph, "Gemm", {"t", "second"}, "g");
  onnx::AttributeProto& transposed = *gemm.add_attribute();
  transposed.set_name("transB");
  transposed.set_type(onnx::AttributeProto::INT);
  transposed.set_i(1);
  add_node(graph, "MatMul", {"g", "third"}, "u");
  add_node(graph, "Add", {"u", "third"}, "y");
  return model;
}

// A folder whose weights `first` and `words` are chains.
// `plain`: the table is the [out, in] of a low-rank pair, as it becomes when nobody says that it is a table.
void write_chains(const std::string& folder, const Chain& first, const Chain& words, bool plain) {
  Sizes modes = words.left_modes;
  modes.insert(modes.end(), words.right_modes.begin(), words.right_modes.end());
  io::ComeraBlock block;
  block.chains.push_back({.name = "first",
                          .kind = io::ChainKind::tt,
                          .shape = {6, 4},
                          .modes = {2, 2, 3, 2},
                          .ranks = first.ranks,
                          .initial_ranks = first.ranks,
                          .folded = true});
  block.chains.push_back({.name = "words",
                          .kind = io::ChainKind::ttm,
                          .shape = {6, 4},
                          .modes = modes,
                          .ranks = words.ranks,
                          .initial_ranks = words.ranks,
                          .folded = true});
  if (plain)
    block.chains.back() = {.name = "words",
                           .kind = io::ChainKind::tt,
                           .shape = {6, 4},
                           .modes = {4, 6},
                           .ranks = words.ranks,
                           .initial_ranks = words.ranks,
                           .folded = true,
                           .in_count = 1};
  std::vector<io::TensorToWrite> tensors;
  for (const auto& [spec, chain] : {std::pair{&block.chains[0], &first}, {&block.chains[1], &words}})
    for (std::size_t k = 0; k < chain->cores.size(); ++k)
      tensors.push_back({spec->core_name(k), io::StoredType::F32, spec->core_shape(k), chain->cores[k].data()});
  make_folders(folder);
  io::write_safetensors(join_path(folder, "model.safetensors"), tensors, io::weights_metadata());
  io::Json config;
  config["comera"] = io::to_json(block);
  write_file_atomic(join_path(folder, "config.json"), io::json_text(config));
}

}  // namespace

TEST_CASE("matrices that one kind of product or lookup reads are candidates") {
  const onnx::ModelProto model = small_model();
  const std::vector<OnnxWeight> found = find_weights(model);
  REQUIRE(found.size() == 3);
  CHECK(found[0].name == "words");
  CHECK(found[0].table);
  CHECK(found[1].name == "first");
  CHECK((found[1].rows == 4 && found[1].columns == 6 && !found[1].transposed));
  CHECK(found[2].name == "second");
  CHECK((found[2].rows == 6 && found[2].columns == 5 && found[2].transposed));
  onnx::ModelProto shown = small_model();
  shown.mutable_graph()->add_output()->set_name("first");
  CHECK(find_weights(shown).size() == 2);
}

TEST_CASE("matrices are found behind Identity, Transpose and Cast, in Constant nodes, and beside subgraphs") {
  onnx::ModelProto model = empty_model();
  onnx::GraphProto& graph = *model.mutable_graph();
  graph.add_input()->set_name("x");
  graph.add_output()->set_name("y");
  add_matrix(graph, "w", 6, 4, random_floats(24, 1));
  add_matrix(graph, "inner", 4, 4, random_floats(16, 2));
  add_node(graph, "Identity", {"w"}, "same");
  add_node(graph, "Transpose", {"same"}, "turned");
  add_node(graph, "MatMul", {"x", "turned"}, "a");
  onnx::NodeProto& constant = add_node(graph, "Constant", {}, "c");
  onnx::AttributeProto& value = *constant.add_attribute();
  value.set_name("value");
  value.set_type(onnx::AttributeProto::TENSOR);
  value.mutable_t()->set_data_type(onnx::TensorProto::FLOAT);
  for (const int dim : {6, 4}) value.mutable_t()->add_dims(dim);
  const std::vector<float> numbers = random_floats(24, 3);
  value.mutable_t()->mutable_raw_data()->assign(reinterpret_cast<const char*>(numbers.data()), 24 * sizeof(float));
  add_node(graph, "MatMul", {"a", "c"}, "b");
  add_node(graph, "MatMul", {"b", "inner"}, "y");
  onnx::NodeProto& branch = add_node(graph, "If", {"x"}, "z");
  onnx::AttributeProto& then = *branch.add_attribute();
  then.set_name("then_branch");
  then.set_type(onnx::AttributeProto::GRAPH);
  add_node(*then.mutable_g(), "Relu", {"inner"}, "r");
  hoist_constants(graph);
  const std::vector<OnnxWeight> found = find_weights(model);
  REQUIRE(found.size() == 2);  // what the branch reads stays as it is
  CHECK((found[0].name == "w" && found[0].transposed && found[0].rows == 4 && found[0].columns == 6));
  CHECK((found[1].name == "c" && !found[1].transposed && found[1].rows == 6));
  CHECK(found[0].type == onnx::TensorProto::FLOAT);
}

TEST_CASE("a chain takes the place of a weight that is read through views of it") {
  const TemporaryFolder folder;
  const Chain first = random_linear({2, 2}, {3, 2}, {1, 2, 1, 2, 1}, 10);
  write_chains(folder / "chains", first, random_table(6, {6, 1}, {1, 4}, {1, 2, 1}, 20), false);
  const io::ModelFolder chains(folder / "chains");
  const WeightReader weights(chains);
  onnx::ModelProto dense = empty_model();
  onnx::GraphProto& graph = *dense.mutable_graph();
  graph.add_input()->set_name("x");
  graph.add_output()->set_name("y");
  add_matrix(graph, "first", 6, 4, transposed(weights.linear("first", 4, 6)).values);
  add_node(graph, "Identity", {"first"}, "same");
  onnx::AttributeProto& order = *add_node(graph, "Transpose", {"same"}, "turned").add_attribute();
  order.set_name("perm");
  order.set_type(onnx::AttributeProto::INTS);
  order.add_ints(1);
  order.add_ints(0);
  add_node(graph, "MatMul", {"x", "turned"}, "y");
  onnx::ModelProto small = dense;
  CHECK(put_chains(small, weights, GraphForm::tt) == 1);
  for (const onnx::NodeProto& node : small.graph().node()) CHECK((node.op_type() != "Transpose" && node.op_type() != "Identity"));
  io::check_onnx(small, "small");
  const std::vector<float> numbers = random_floats(12, 5);
  const Arrays x{{"x", {{3, 4}, true, {numbers.begin(), numbers.end()}, {}}}};
  const Array expected = evaluate(dense, x, Precision::doubled).at("y"), y = evaluate(small, x, Precision::doubled).at("y");
  REQUIRE(y.dims == expected.dims);
  for (std::size_t i = 0; i < y.reals.size(); ++i) CHECK(y.reals[i] == Approx(expected.reals[i]).epsilon(1e-5).margin(1e-5));
}

TEST_CASE("candidates are handed on in the orientation of a folder") {
  const TemporaryFolder folder;
  onnx::ModelProto model = small_model();
  io::write_onnx(folder / "m.onnx", model);
  io::OnnxFile file(folder / "m.onnx");
  write_weights_folder(file, folder / "weights");
  const io::ModelFolder weights(folder / "weights");
  CHECK(weights.read_floats("first.weight", {6, 4}) == transposed({4, 6, random_floats(24, 2)}).values);
  CHECK(weights.read_floats("second.weight", {5, 6}) == random_floats(30, 3));
  CHECK(weights.read_floats("words.weight", {6, 4}) == random_floats(24, 1));
}

TEST_CASE("chains take the place of the weights that they stand for") {
  const TemporaryFolder folder;
  const int kind = GENERATE(0, 1, 2);  // a table in both modes, one whose columns are all in the right half, a pair that is no table
  const bool plain = kind == 2;
  const Sizes row_modes = kind == 0 ? Sizes{3, 2} : Sizes{6, 1}, column_modes = kind == 0 ? Sizes{2, 2} : Sizes{1, 4};
  const Chain first = random_linear({2, 2}, {3, 2}, {1, 2, 1, 2, 1}, 10);
  const Chain words = plain ? random_linear({4}, {6}, {1, 2, 1}, 20) : random_table(6, row_modes, column_modes, {1, 2, 1}, 20);
  write_chains(folder / "chains", first, words, plain);
  const io::ModelFolder chains(folder / "chains");
  const WeightReader weights(chains);
  // The graph as far as an operator that is evaluated, with the weights multiplied out and with the chains.
  const auto shortened = [] {
    onnx::ModelProto model = small_model();
    model.mutable_graph()->mutable_node()->DeleteSubrange(3, 3);
    model.mutable_graph()->mutable_output(0)->set_name("t");
    return model;
  };
  onnx::ModelProto dense = shortened();
  const Matrix w = weights.linear("first", 4, 6), e = plain ? transposed(weights.linear("words", 4, 6)) : weights.table("words", 6, 4);
  for (const auto& [index, matrix] : {std::pair{0, &e}, {1, &w}})
    dense.mutable_graph()->mutable_initializer(index)->mutable_raw_data()->assign(reinterpret_cast<const char*>(matrix->values.data()),
                                                                                  24 * sizeof(float));
  const Arrays ids{{"ids", {{2, 3}, false, {}, {0, 5, 3, 1, 2, 4}}}};
  const Array expected = evaluate(dense, ids, Precision::doubled).at("t");
  for (const GraphForm form : {GraphForm::tt, GraphForm::factors}) {
    onnx::ModelProto model = shortened();
    CHECK(put_chains(model, weights, form) == 2);
    io::check_onnx(model, "changed");
    for (const TensorProto& tensor : model.graph().initializer()) CHECK((tensor.name() != "first" && tensor.name() != "words"));
    const Array y = evaluate(model, ids, Precision::doubled).at("t");
    REQUIRE(y.dims == expected.dims);
    for (std::size_t i = 0; i < y.reals.size(); ++i) CHECK(y.reals[i] == Approx(expected.reals[i]).epsilon(1e-5).margin(1e-5));
  }
}
