#include "lib/export/rewrite/onnx_weights.h"

#include <catch2/catch.hpp>
#include <set>

#include "lib/export/rewrite/onnx_graphs.h"
#include "tests/export/graphs_of_others.h"

using namespace comera;
using namespace comera::exporting;
using onnx::TensorProto;

namespace {

// y = f(words[ids] first) second, where f is an operator of another domain, and `third`, which is used in two ways.
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

// Writes a folder in which the weights `first` and `words` are chains. `plain`: the table is the [out, in] of a
// low-rank pair, as for a weight that is not marked as a table.
void write_chains(const std::string& folder, const StoredChain& first, const StoredChain& words, bool plain) {
  io::ComeraBlock block{{spec_of(first, "first"), spec_of(words, "words")}, {}, {}};
  if (plain) block.chains[1].layout = tt::tt_layout({4}, {6}, words.layout().ranks);
  write_folder(folder, block, {&first, &words});
}

}  // namespace

TEST_CASE("matrices that a product or a lookup reads are candidates") {
  const onnx::ModelProto model = small_model();
  const std::vector<OnnxWeight> found = find_weights(model);
  REQUIRE(found.size() == 4);
  CHECK(found[0].name == "words");
  CHECK(found[0].table);
  CHECK(found[1].name == "first");
  CHECK((found[1].rows == 4 && found[1].columns == 6 && !found[1].transposed));
  CHECK(found[2].name == "second");
  CHECK((found[2].rows == 6 && found[2].columns == 5 && found[2].transposed));
  onnx::ModelProto shown = small_model();
  shown.mutable_graph()->add_output()->set_name("first");
  CHECK(find_weights(shown).size() == 3);
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
  const std::vector<OnnxWeight> found = find_weights(model);
  REQUIRE(found.size() == 3);
  CHECK((found[0].name == "w" && found[0].transposed && found[0].rows == 4 && found[0].columns == 6));
  CHECK((found[1].name == "inner" && !found[1].constant.other.empty()));  // a Relu reads it as it is
  CHECK((found[2].name == "c" && !found[2].transposed && found[2].rows == 6));
  CHECK(found[0].constant.readers[0].type == onnx::TensorProto::FLOAT);
}

TEST_CASE("a chain replaces a weight that is read through views") {
  const TemporaryFolder folder;
  const StoredChain first = random_linear({2, 2}, {3, 2}, {1, 2, 1, 2, 1}, 10);
  write_chains(folder / "chains", first, random_table(6, {6, 1}, {1, 4}, {1, 2, 1}, 20), false);
  const io::ModelFolder chains(folder / "chains");
  const WeightReader weights(chains);
  onnx::ModelProto dense = empty_model();
  onnx::GraphProto& graph = *dense.mutable_graph();
  graph.add_input()->set_name("x");
  graph.add_output()->set_name("y");
  add_matrix(graph, "first", 6, 4, tt::transposed(weights.linear("first", 4, 6)).values);
  add_node(graph, "Identity", {"first"}, "same");
  onnx::AttributeProto& order = *add_node(graph, "Transpose", {"same"}, "turned").add_attribute();
  order.set_name("perm");
  order.set_type(onnx::AttributeProto::INTS);
  order.add_ints(1);
  order.add_ints(0);
  add_node(graph, "MatMul", {"x", "turned"}, "y");
  onnx::ModelProto small = dense;
  CHECK(put_chains(small, weights, GraphForm::tt) == 1);
  for (const onnx::NodeProto& node : small.graph().node())
    CHECK((node.op_type() != "Transpose" && node.op_type() != "Identity"));
  io::check_onnx(small, "small");
  const std::vector<float> numbers = random_floats(12, 5);
  const Arrays x{{"x", {{3, 4}, true, {numbers.begin(), numbers.end()}, {}}}};
  const Array expected = evaluate(dense, x, Precision::doubled).at("y"),
              y = evaluate(small, x, Precision::doubled).at("y");
  REQUIRE(y.dims == expected.dims);
  for (std::size_t i = 0; i < y.reals.size(); ++i)
    CHECK(y.reals[i] == Approx(expected.reals[i]).epsilon(1e-5).margin(1e-5));
}

TEST_CASE("candidates are written in the orientation of a folder") {
  const TemporaryFolder folder;
  onnx::ModelProto model = small_model();
  io::write_onnx(folder / "m.onnx", model);
  io::OnnxFile file(folder / "m.onnx");
  write_weights_folder(file, folder / "weights");
  const io::ModelFolder weights(folder / "weights");
  CHECK(weights.read_floats("first.weight", {6, 4}) == tt::transposed(Matrix(4, 6, random_floats(24, 2))).values);
  CHECK(weights.read_floats("second.weight", {5, 6}) == random_floats(30, 3));
  CHECK(weights.read_floats("words.weight", {6, 4}) == random_floats(24, 1));
}

TEST_CASE("chains replace their weights") {
  const TemporaryFolder folder;
  // 0: a table in both modes; 1: a table with all columns in the right factor; 2: a pair that is not a table
  const int kind = GENERATE(0, 1, 2);
  const bool plain = kind == 2;
  const Sizes row_modes = kind == 0 ? Sizes{3, 2} : Sizes{6, 1}, column_modes = kind == 0 ? Sizes{2, 2} : Sizes{1, 4};
  const StoredChain first = random_linear({2, 2}, {3, 2}, {1, 2, 1, 2, 1}, 10);
  const StoredChain words =
      plain ? random_linear({4}, {6}, {1, 2, 1}, 20) : random_table(6, row_modes, column_modes, {1, 2, 1}, 20);
  write_chains(folder / "chains", first, words, plain);
  const io::ModelFolder chains(folder / "chains");
  const WeightReader weights(chains);
  // The graph up to the last operator that the evaluator supports, with the weights multiplied out and with the chains.
  const auto shortened = [] {
    onnx::ModelProto model = small_model();
    model.mutable_graph()->mutable_node()->DeleteSubrange(3, 3);
    model.mutable_graph()->mutable_initializer()->DeleteSubrange(2, 2);
    model.mutable_graph()->mutable_output(0)->set_name("t");
    return model;
  };
  onnx::ModelProto dense = shortened();
  const Matrix w = weights.linear("first", 4, 6),
               e = plain ? tt::transposed(weights.linear("words", 4, 6)) : weights.table("words", 6, 4);
  for (const auto& [index, matrix] : {std::pair{0, &e}, {1, &w}})
    dense.mutable_graph()->mutable_initializer(index)->mutable_raw_data()->assign(
        reinterpret_cast<const char*>(matrix->values.data()), 24 * sizeof(float));
  const Arrays ids{{"ids", {{2, 3}, false, {}, {0, 5, 3, 1, 2, 4}}}};
  const Array expected = evaluate(dense, ids, Precision::doubled).at("t");
  for (const GraphForm form : {GraphForm::tt, GraphForm::factors}) {
    onnx::ModelProto model = shortened();
    CHECK(put_chains(model, weights, form) == 2);
    io::check_onnx(model, "changed");
    check_all_read(model.graph());
    for (const TensorProto& tensor : model.graph().initializer())
      CHECK((tensor.name() != "first" && tensor.name() != "words"));
    const Array y = evaluate(model, ids, Precision::doubled).at("t");
    REQUIRE(y.dims == expected.dims);
    for (std::size_t i = 0; i < y.reals.size(); ++i)
      CHECK(y.reals[i] == Approx(expected.reals[i]).epsilon(1e-5).margin(1e-5));
  }
}

namespace {

// Replaces an operator that lib/export/evaluator/evaluator.h does not support: a Gemm of two matrices.
void without_gemm(onnx::GraphProto& graph) {
  const std::vector<onnx::NodeProto> nodes(graph.node().begin(), graph.node().end());
  graph.clear_node();
  for (const onnx::NodeProto& node : nodes) {
    if (node.op_type() != "Gemm") {
      *graph.add_node() = node;
      continue;
    }
    std::vector<std::string> inputs{node.input(0), node.input(1)};
    for (const int k : {0, 1}) {
      if (integer_of(node, k == 0 ? "transA" : "transB", 0) == 0) continue;
      const std::string turned = node.output(0) + "/turned" + std::to_string(k);
      onnx::AttributeProto& order =
          *add_node(graph, "Transpose", {inputs[static_cast<std::size_t>(k)]}, turned).add_attribute();
      order.set_name("perm");
      order.set_type(onnx::AttributeProto::INTS);
      order.add_ints(1);
      order.add_ints(0);
      inputs[static_cast<std::size_t>(k)] = turned;
    }
    add_node(graph, "MatMul", inputs, node.output(0));
  }
}

struct Reading {
  const char* op;
  int constant;  // index of the operand that is the matrix
  bool flip_a = false, flip_b = false;
};

onnx::ModelProto reading_model(const Reading& reading) {
  onnx::ModelProto model = empty_model();
  onnx::GraphProto& graph = *model.mutable_graph();
  graph.add_input()->set_name("x");
  graph.add_output()->set_name("y");
  add_matrix(graph, "first", 6, 4, random_floats(24, 2));
  onnx::NodeProto& node = add_node(
      graph, reading.op,
      reading.constant == 0 ? std::vector<std::string>{"first", "x"} : std::vector<std::string>{"x", "first"}, "y");
  if (reading.flip_a) set_integer(node, "transA", 1);
  if (reading.flip_b) set_integer(node, "transB", 1);
  return model;
}

}  // namespace

TEST_CASE("a constant is a candidate on either side of a product, also with the transposes of Gemm") {
  const TemporaryFolder folder;
  const Reading reading =
      GENERATE(Reading{"MatMul", 0}, Reading{"MatMul", 1}, Reading{"Gemm", 0}, Reading{"Gemm", 0, true},
               Reading{"Gemm", 0, false, true}, Reading{"Gemm", 0, true, true}, Reading{"Gemm", 1, true},
               Reading{"Gemm", 1, true, true}, Reading{"Gemm", 1, false, true});
  const bool multiplied = GENERATE(false, true);
  onnx::ModelProto dense = reading_model(reading);
  const std::vector<OnnxWeight> found = find_weights(dense);
  REQUIRE(found.size() == 1);
  const OnnxWeight& weight = found[0];
  // `rows` is the size over which the product sums.
  const bool turned = reading.constant == 0 ? reading.flip_a : reading.flip_b;
  CHECK(weight.rows == ((reading.constant == 0) == turned ? 6 : 4));
  write_first(folder / "chains", first_chain(multiplied, weight.rows, weight.columns));
  const io::ModelFolder chains(folder / "chains");
  const WeightReader weights(chains);
  const Matrix whole = weights.linear("first", weight.rows, weight.columns);
  set_numbers(dense, "first", weight.transposed ? tt::transposed(whole) : whole);
  onnx::ModelProto small = dense;
  CHECK(put_chains(small, weights, GraphForm::tt) == 1);
  io::check_onnx(small, "small");
  check_all_read(small.graph());
  without_gemm(*dense.mutable_graph());
  without_gemm(*small.mutable_graph());
  // x has the same inner size as the matrix, on the side that the product requires.
  const std::int64_t inner = weight.rows;
  const bool inner_first = (reading.constant == 0) != (reading.constant == 0 ? reading.flip_b : reading.flip_a);
  const std::vector<float> numbers = random_floats(inner * 3, 5);
  const Arrays x{{"x", {inner_first ? Sizes{inner, 3} : Sizes{3, inner}, true, {numbers.begin(), numbers.end()}, {}}}};
  check_same(evaluate(small, x, Precision::doubled).at("y"), evaluate(dense, x, Precision::doubled).at("y"));
}

TEST_CASE("a table that a product also reads becomes one chain with two readers") {
  const TemporaryFolder folder;
  const bool multiplied = GENERATE(false, true);
  onnx::ModelProto dense = empty_model();
  onnx::GraphProto& graph = *dense.mutable_graph();
  for (const char* name : {"ids"}) graph.add_input()->set_name(name);
  graph.add_output()->set_name("y");
  add_matrix(graph, "first", 6, 4, random_floats(24, 1));
  add_node(graph, "Gather", {"first", "ids"}, "x");
  onnx::AttributeProto& order = *add_node(graph, "Transpose", {"first"}, "turned").add_attribute();
  order.set_name("perm");
  order.set_type(onnx::AttributeProto::INTS);
  order.add_ints(1);
  order.add_ints(0);
  add_node(graph, "MatMul", {"x", "turned"}, "y");
  const std::vector<OnnxWeight> found = find_weights(dense);
  REQUIRE(found.size() == 1);
  CHECK((!found[0].table && found[0].transposed && found[0].rows == 4 && found[0].columns == 6 &&
         found[0].constant.readers.size() == 2));
  write_first(folder / "chains", first_chain(multiplied, 4, 6));
  const io::ModelFolder chains(folder / "chains");
  const WeightReader weights(chains);
  set_numbers(dense, "first", tt::transposed(weights.linear("first", 4, 6)));
  onnx::ModelProto small = dense;
  CHECK(put_chains(small, weights, GraphForm::tt) == 1);
  io::check_onnx(small, "small");
  check_all_read(small.graph());
  const Arrays ids{{"ids", {{2, 3}, false, {}, {0, 5, 3, 1, 2, 4}}}};
  check_same(evaluate(small, ids, Precision::doubled).at("y"), evaluate(dense, ids, Precision::doubled).at("y"));
}

TEST_CASE("weights that stay dense have a reason") {
  const auto reason = [](const auto& change) {
    onnx::ModelProto model = reading_model({"MatMul", 1});
    change(*model.mutable_graph());
    const OnnxMatrices found = find_matrices(model);
    CHECK(found.weights.empty());
    REQUIRE(found.left_out.size() == 1);
    CHECK(found.left_out[0].name.starts_with("first ["));
    return found.left_out[0].why;
  };
  using Catch::Matchers::Contains;
  CHECK_THAT(reason([](onnx::GraphProto& graph) {
               graph.mutable_node(0)->set_op_type("Gather");
               graph.mutable_node(0)->set_input(0, "first");
               graph.mutable_node(0)->set_input(1, "x");
               set_integer(*graph.mutable_node(0), "axis", 2);
             }),
             Contains("node y (Gather) reads it"));
  CHECK_THAT(reason([](onnx::GraphProto& graph) { graph.mutable_initializer(0)->add_dims(1); }),
             Contains("has 3 dimensions"));
  CHECK_THAT(reason([](onnx::GraphProto& graph) {
               graph.mutable_node(0)->set_op_type("DequantizeLinear");
               graph.mutable_node(0)->clear_name();
             }),
             Contains("is quantised, a node without a name (DequantizeLinear, which makes y)"));
  CHECK_THAT(reason([](onnx::GraphProto& graph) { graph.mutable_node(0)->set_input(0, "first"); }),
             Contains("with another constant"));
  CHECK_THAT(reason([](onnx::GraphProto& graph) { graph.mutable_node(0)->set_op_type("Sub"); }),
             Contains("node y (Sub) reads it"));
  CHECK_THAT(reason([](onnx::GraphProto& graph) { graph.add_output()->set_name("first"); }),
             Contains("is an output of the graph"));
  CHECK_THAT(reason([](onnx::GraphProto& graph) { graph.mutable_initializer(0)->set_data_type(TensorProto::INT32); }),
             Contains("of type INT32"));
}

TEST_CASE("a graph that has chains keeps them and accepts further chains under other names") {
  const TemporaryFolder folder;
  onnx::ModelProto model = reading_model({"MatMul", 1});
  write_first(folder / "chains", first_chain(false, 6, 4));
  CHECK(chains_of(model) == 0);
  const io::ModelFolder chains(folder / "chains");
  put_chains(model, WeightReader(chains), GraphForm::tt);
  CHECK(chains_of(model) == 1);
  CHECK(find_weights(model).empty());
  CHECK(find_matrices(model).left_out.empty());
  // Adds a dense weight. The constants of its chain have the same names as those of the first.
  const StoredChain table = random_table(6, {3, 2}, {2, 2}, {1, 2, 1}, 20);
  for (int again = 0; again < 2; ++again) {
    const std::string name = again == 0 ? "words" : "others";
    add_matrix(*model.mutable_graph(), name, 6, 4, random_floats(24, 1));
    model.mutable_graph()->add_input()->set_name(name + "_ids");
    model.mutable_graph()->add_output()->set_name(name + "_rows");
    add_node(*model.mutable_graph(), "Gather", {name, name + "_ids"}, name + "_rows");
    io::ComeraBlock block;
    block.chains.push_back(spec_of(table, name));
    std::vector<io::TensorToWrite> tensors;
    for (std::size_t k = 0; k < table.numbers.cores.size(); ++k)
      tensors.push_back({block.chains[0].core_name(k), io::StoredType::F32, block.chains[0].layout.core_shape(k),
                         table.numbers.cores[k].data()});
    make_folders(folder / name);
    io::write_safetensors(folder / name + "/model.safetensors", tensors, io::weights_metadata());
    io::Json config;
    config["comera"] = io::to_json(block);
    write_file_atomic(folder / name + "/config.json", io::json_text(config));
    const io::ModelFolder more(folder / name);
    CHECK(put_chains(model, WeightReader(more), GraphForm::tt) == 1);
    io::check_onnx(model, "more");
    CHECK(chains_of(model) == 2 + again);
  }
}
