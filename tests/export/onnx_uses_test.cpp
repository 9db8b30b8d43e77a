#include "lib/export/rewrite/onnx_uses.h"

#include "lib/export/rewrite/onnx_graphs.h"
#include "tests/export/graphs_of_others.h"

using namespace comera;
using namespace comera::exporting;

namespace {

onnx::ModelProto model_of(std::int64_t opset, std::int64_t format) {
  onnx::ModelProto model = empty_model();
  model.mutable_opset_import(0)->set_version(opset);
  model.set_ir_version(format);
  model.mutable_graph()->add_input()->set_name("x");
  model.mutable_graph()->add_output()->set_name("y");
  return model;
}

onnx::GraphProto& add_branch(onnx::NodeProto& node, const char* name) {
  onnx::AttributeProto& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto::GRAPH);
  attribute.mutable_g()->add_output()->set_name(std::string(name) + "_out");
  return *attribute.mutable_g();
}

void add_constant(onnx::GraphProto& graph, const std::string& name, const TensorProto& tensor) {
  onnx::AttributeProto& value = *add_node(graph, "Constant", {}, name).add_attribute();
  value.set_name("value");
  value.set_type(onnx::AttributeProto::TENSOR);
  *value.mutable_t() = tensor;
}

void add_transpose(onnx::GraphProto& graph, const std::string& of, const std::string& name) {
  onnx::AttributeProto& order = *add_node(graph, "Transpose", {of}, name).add_attribute();
  order.set_name("perm");
  order.set_type(onnx::AttributeProto::INTS);
  for (const int axis : {1, 0}) order.add_ints(axis);
}

Array ids_of(const Sizes& dims, std::int64_t limit) {
  Array ids{dims, false, {}, {}};
  for (std::int64_t i = 0; i < tt::product(dims); ++i) ids.integers.push_back(i * 5 % limit);
  return ids;
}

Array reals_of(const Sizes& dims) {
  const std::vector<float> numbers = random_floats(tt::product(dims), 7);
  return {dims, true, {numbers.begin(), numbers.end()}, {}};
}

// Puts the chain into `dense` and compares the outputs before and after for the input `x`.
void check_put(onnx::ModelProto dense, const WeightReader& weights, const Matrix& stored, const Array& x) {
  set_numbers(dense, "first", stored);
  onnx::ModelProto small = dense;
  REQUIRE(put_chains(small, weights, GraphForm::tt) == 1);
  io::check_onnx(small, "small");
  check_all_read(small.graph());
  check_same(evaluate(small, {{"x", x}}, Precision::doubled).at("y"),
             evaluate(dense, {{"x", x}}, Precision::doubled).at("y"));
}

std::vector<std::string> names_of(const onnx::ModelProto& model) {
  std::vector<std::string> names;
  for (const OnnxWeight& weight : find_weights(model)) names.push_back(weight.name);
  return names;
}

}  // namespace

TEST_CASE("columns of a chain are looked up by ids of any shape") {
  const TemporaryFolder folder;
  const bool turned = GENERATE(false, true), multiplied = GENERATE(false, true);
  const Sizes shape = GENERATE(Sizes{}, Sizes{5}, Sizes{2, 3}, Sizes{2, 1, 3});
  onnx::ModelProto dense = model_of(17, 8);
  add_matrix(*dense.mutable_graph(), "first", turned ? 4 : 6, turned ? 6 : 4, random_floats(24, 1));
  if (turned) add_transpose(*dense.mutable_graph(), "first", "view");
  set_integer(add_node(*dense.mutable_graph(), "Gather", {turned ? "view" : "first", "x"}, "y"), "axis",
              turned ? -1 : 1);
  const std::vector<OnnxWeight> found = find_weights(dense);
  REQUIRE(found.size() == 1);
  CHECK((found[0].table && found[0].rows == 4 && found[0].columns == 6 && found[0].transposed != turned));
  // As a plain pair, the table is [4, 6] in the order [out, in].
  write_first(folder / "chains", first_chain(multiplied, 6, 4));
  const io::ModelFolder chains(folder / "chains");
  const WeightReader weights(chains);
  const Matrix whole = weights.linear("first", 6, 4);
  check_put(dense, weights, turned ? tt::transposed(whole) : whole, ids_of(shape, 4));
}

TEST_CASE("a table in both modes is read as its transpose, and ids below zero count from its end") {
  const TemporaryFolder folder;
  const bool stored_turned = GENERATE(false, true), columns = GENERATE(false, true);
  const StoredChain chain = random_table(11, {3, 2, 2}, {2, 1, 3}, {1, 3, 2, 1}, 20);
  io::ComeraBlock block;
  block.chains.push_back(spec_of(chain, "first"));
  write_folder(folder / "chains", block, {&chain});
  onnx::ModelProto model = model_of(17, 8);
  onnx::GraphProto& graph = *model.mutable_graph();
  add_matrix(graph, "first", stored_turned ? 6 : 11, stored_turned ? 11 : 6, random_floats(66, 1));
  const bool view = stored_turned != columns;
  if (view) add_transpose(graph, "first", "view");
  set_integer(add_node(graph, "Gather", {view ? "view" : "first", "x"}, "y"), "axis", columns ? 1 : 0);
  const std::vector<OnnxWeight> found = find_weights(model);
  REQUIRE(found.size() == 1);
  CHECK((found[0].table && found[0].rows == 11 && found[0].columns == 6 && found[0].transposed == stored_turned));
  const io::ModelFolder chains(folder / "chains");
  REQUIRE(put_chains(model, WeightReader(chains), GraphForm::tt) == 1);
  io::check_onnx(model, "small");
  const Array ids{{2, 2}, false, {}, {0, -1, -11, 7}}, y = evaluate(model, {{"x", ids}}, Precision::doubled).at("y");
  REQUIRE(y.dims == (columns ? Sizes{6, 2, 2} : Sizes{2, 2, 6}));
  for (std::int64_t k = 0; k < 4; ++k)
    for (std::int64_t j = 0; j < 6; ++j) {
      const std::int64_t row = Sizes{0, 10, 0, 7}[static_cast<std::size_t>(k)];
      CHECK(y.reals[static_cast<std::size_t>(columns ? j * 4 + k : k * 6 + j)] ==
            Approx(table_entry(chain, row, j)).epsilon(1e-5).margin(1e-5));
    }
}

TEST_CASE("products with a matrix with leading sizes of 1 keep their number of dimensions") {
  const TemporaryFolder folder;
  const bool left = GENERATE(false, true), multiplied = GENERATE(false, true);
  const Sizes batch = GENERATE(Sizes{}, Sizes{2}, Sizes{2, 1, 2});
  onnx::ModelProto dense = model_of(17, 8);
  TensorProto& tensor = add_matrix(*dense.mutable_graph(), "first", 1, 6, random_floats(24, 1));
  tensor.add_dims(4);
  add_node(*dense.mutable_graph(), "MatMul",
           left ? std::vector<std::string>{"first", "x"} : std::vector<std::string>{"x", "first"}, "y");
  const std::vector<OnnxWeight> found = find_weights(dense);
  REQUIRE(found.size() == 1);
  CHECK((found[0].rows == (left ? 4 : 6) && found[0].transposed == left));
  write_first(folder / "chains", first_chain(multiplied, found[0].rows, found[0].columns));
  const io::ModelFolder chains(folder / "chains");
  const WeightReader weights(chains);
  const Matrix whole = weights.linear("first", found[0].rows, found[0].columns);
  Sizes dims = batch;
  dims.insert(dims.end(), left ? std::initializer_list<std::int64_t>{4, 3} : std::initializer_list<std::int64_t>{3, 6});
  check_put(dense, weights, left ? tt::transposed(whole) : whole, reals_of(dims));
}

TEST_CASE("weights that branches read become chains in the graph of the reader, and inner names hide outer names") {
  const TemporaryFolder folder;
  onnx::ModelProto model = model_of(17, 8);
  onnx::GraphProto& graph = *model.mutable_graph();
  const TensorProto first = add_matrix(graph, "first", 6, 4, random_floats(24, 1));
  add_matrix(graph, "hidden", 6, 4, random_floats(24, 2));
  add_node(graph, "Identity", {"first"}, "view");
  add_node(graph, "MatMul", {"x", "first"}, "a");
  onnx::NodeProto& choice = add_node(graph, "If", {"x"}, "y");
  onnx::GraphProto &then = add_branch(choice, "then_branch"), &otherwise = add_branch(choice, "else_branch");
  add_node(then, "MatMul", {"x", "view"}, "then_branch_out");
  add_node(then, "Relu", {"hidden"}, "shown");
  add_node(otherwise, "Identity", {"x"}, "view");
  add_matrix(otherwise, "hidden", 6, 4, random_floats(24, 3));
  add_node(otherwise, "MatMul", {"x", "hidden"}, "b");
  add_node(otherwise, "MatMul", {"b", "view"}, "else_branch_out");
  add_constant(otherwise, "inner", first);
  add_node(otherwise, "Gather", {"inner", "x"}, "c");
  io::check_onnx(model, "model");
  // Only a Relu reads the outer "hidden"; the inner one is a different matrix.
  CHECK(names_of(model) == std::vector<std::string>{"first", "hidden", "inner"});
  const std::vector<OnnxWeight> found = find_weights(model);
  CHECK((found[0].constant.readers.size() == 2 && found[1].constant.graph == 2 && found[2].constant.node >= 0 &&
         found[2].table));
  REQUIRE(find_matrices(model).left_out.size() == 1);
  CHECK(find_matrices(model).left_out[0].why.starts_with("node shown (Relu) reads it"));

  write_first(folder / "chains", first_chain(false, 6, 4));
  const io::ModelFolder chains(folder / "chains");
  CHECK(put_chains(model, WeightReader(chains), GraphForm::tt) == 1);
  io::check_onnx(model, "small");
  CHECK(names_of(model) == std::vector<std::string>{"hidden", "inner"});
  CHECK(graph.initializer_size() == 3);  // two cores and the matrix that the Relu reads
  const onnx::NodeProto& changed = graph.node(graph.node_size() - 1);
  const onnx::GraphProto& inside = changed.attribute(0).g();
  REQUIRE(inside.node_size() == 3);
  CHECK((inside.node(0).output(0) == "then_branch_out/left" && inside.node(0).input(1) == "first.tt.0" &&
         inside.node(1).input(1) == "first.tt.1"));
  CHECK(changed.attribute(1).g().node_size() == 5);  // its "view" is not a view of the weight
}

TEST_CASE("nodes that need the matrix itself read the product of the factors under its old name") {
  const TemporaryFolder folder;
  const bool multiplied = GENERATE(false, true), lifted = GENERATE(false, true);
  onnx::ModelProto dense = model_of(17, 8);
  TensorProto& tensor =
      add_matrix(*dense.mutable_graph(), "first", lifted ? 1 : 6, lifted ? 6 : 4, random_floats(24, 1));
  if (lifted) tensor.add_dims(4);
  add_node(*dense.mutable_graph(), "MatMul", {"x", "first"}, "h");
  add_node(*dense.mutable_graph(), "Add", {"h", "first"}, "y");
  write_first(folder / "chains", first_chain(multiplied, 6, 4));
  const io::ModelFolder chains(folder / "chains");
  const WeightReader weights(chains);
  check_put(dense, weights, weights.linear("first", 6, 4), reals_of({6, 6}));
}

TEST_CASE("weights of the same name in two graphs get different names") {
  onnx::ModelProto model = model_of(17, 8);
  onnx::NodeProto& choice = add_node(*model.mutable_graph(), "If", {"x"}, "y");
  for (const char* name : {"then_branch", "else_branch"}) {
    onnx::GraphProto& branch = add_branch(choice, name);
    add_matrix(branch, "w", 6, 4, random_floats(24, 3));
    add_node(branch, "MatMul", {"x", "w"}, std::string(name) + "_out");
  }
  add_node(*model.mutable_graph(), "MatMul", {"x", "x"}, "w_2.tt.0");
  CHECK(names_of(model) == std::vector<std::string>{"w", "w_3"});
  model.mutable_graph()->mutable_node(0)->mutable_attribute(0)->mutable_g()->add_output()->set_name("w");
  CHECK(find_matrices(model).left_out.at(0).why == "it is an output of a subgraph (of If, Loop or Scan)");
}

TEST_CASE("formats that list initialisers among the inputs still list them") {
  const TemporaryFolder folder;
  onnx::ModelProto model = model_of(8, GENERATE(3, 4));
  add_matrix(*model.mutable_graph(), "first", 6, 4, random_floats(24, 1));
  model.mutable_graph()->add_input()->set_name("first");
  add_node(*model.mutable_graph(), "MatMul", {"x", "first"}, "y");
  if (model.ir_version() == 4) {
    CHECK(find_weights(model).empty());  // a caller may replace it
    return;
  }
  write_first(folder / "chains", first_chain(false, 6, 4));
  const io::ModelFolder chains(folder / "chains");
  CHECK(put_chains(model, WeightReader(chains), GraphForm::tt) == 1);
  std::map<std::string, std::int64_t> inputs;  // name and first size
  for (const onnx::ValueInfoProto& input : model.graph().input()) {
    const auto& shape = input.type().tensor_type().shape();
    inputs[input.name()] = shape.dim_size() > 0 ? shape.dim(0).dim_value() : 0;
  }
  CHECK(inputs == std::map<std::string, std::int64_t>{{"x", 0}, {"first.tt.0", 6}, {"first.tt.1", 2}});
}

TEST_CASE("each weight keeps its type") {
  const TemporaryFolder folder;
  onnx::ModelProto model = model_of(17, 8);
  add_matrix(*model.mutable_graph(), "other", 4, 4, random_floats(8, 1)).set_data_type(TensorProto::FLOAT16);
  add_matrix(*model.mutable_graph(), "first", 6, 4, random_floats(24, 1));
  add_node(*model.mutable_graph(), "MatMul", {"x", "first"}, "h");
  add_node(*model.mutable_graph(), "MatMul", {"h", "other"}, "y");
  write_first(folder / "chains", first_chain(false, 6, 4));
  const io::ModelFolder chains(folder / "chains");
  CHECK(put_chains(model, WeightReader(chains), GraphForm::tt) == 1);
  for (const TensorProto& tensor : model.graph().initializer())
    CHECK(tensor.data_type() == (tensor.name() == "other" ? TensorProto::FLOAT16 : TensorProto::FLOAT));
}

TEST_CASE("constants of functions stay dense, with a reason") {
  onnx::ModelProto model = model_of(17, 8);
  onnx::FunctionProto& function = *model.add_functions();
  function.set_name("Layer");
  onnx::GraphProto inside;
  add_constant(inside, "w", add_matrix(*model.mutable_graph(), "unused", 6, 4, random_floats(24, 1)));
  *function.add_node() = inside.node(0);
  REQUIRE(find_matrices(model).left_out.size() == 1);
  CHECK(find_matrices(model).left_out[0].why.starts_with("it is a constant of function Layer"));
}
