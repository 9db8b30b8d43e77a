#include "lib/export/rewrite/onnx_split.h"

#include "lib/export/rewrite/onnx_graphs.h"

namespace comera::exporting {
namespace {

using onnx::TensorProto;
using How = OnnxReader::How;

onnx::NodeProto& add_node(onnx::GraphProto& graph, const std::string& op, const std::vector<Name>& inputs,
                          const Name& output) {
  onnx::NodeProto& node = *graph.add_node();
  node.set_op_type(op);
  node.set_name(output);
  for (const Name& input : inputs) node.add_input(input);
  node.add_output(output);
  return node;
}

void set_order(onnx::NodeProto& node, std::initializer_list<std::int64_t> order) {
  onnx::AttributeProto& attribute = *node.add_attribute();
  attribute.set_name("perm");
  attribute.set_type(onnx::AttributeProto::INTS);
  for (const std::int64_t axis : order) attribute.add_ints(axis);
}

// Gives the output of `node` the value `value` with the shape [first, ..] in `shape`. A size of 0 means 0, not a copy
// of the size of `value`.
void make_result(onnx::GraphProto& graph, const onnx::NodeProto& node, const Name& value,
                 const std::vector<Name>& shape, std::int64_t opset) {
  const Name whole = node.output(0) + "/result_shape";
  set_integer(add_node(graph, "Concat", shape, whole), "axis", 0);
  onnx::NodeProto& last = add_node(graph, "Reshape", {value, whole}, node.output(0));
  last.set_name(node.name());
  if (opset >= 14) set_integer(last, "allowzero", 1);
}

// Writes a product with a constant as two products. A Gemm keeps its scale and its bias in the second one. The other
// operand may be read as its transpose.
void split_product(onnx::GraphProto& graph, onnx::NodeProto node, const SplitPair& pair) {
  const bool constant_first = pair.how == How::left;
  const int constant = constant_first ? 0 : 1, other = 1 - constant;
  const char* const flips[] = {"transA", "transB"};
  if (integer_of(node, flips[constant], 0) != 0) set_integer(node, flips[constant], 0);
  if (pair.factors.left.empty()) {
    node.set_input(constant, pair.factors.right);
  } else {
    const Name middle = node.output(0) + (constant_first ? "/right" : "/left");
    Name x = node.input(other);
    if (integer_of(node, flips[other], 0) != 0) {
      x = node.output(0) + "/turned";
      set_order(add_node(graph, "Transpose", {node.input(other)}, x), {1, 0});
      set_integer(node, flips[other], 0);
    }
    add_node(graph, "MatMul", constant_first ? std::vector{pair.factors.right, x} : std::vector{x, pair.factors.left},
             middle);
    node.set_input(other, middle);
    node.set_input(constant, constant_first ? pair.factors.left : pair.factors.right);
  }
  *graph.add_node() = std::move(node);
}

// Rows of the first factor, multiplied by the second factor.
void split_rows(onnx::GraphProto& graph, const onnx::NodeProto& node, const LinearConstants& factors) {
  const Name row = node.output(0) + "/row";
  add_node(graph, "Gather", {factors.left, node.input(1)}, row);
  add_node(graph, "MatMul", {row, factors.right}, node.output(0)).set_name(node.name());
}

// The first factor multiplied by columns of the second. In the result, the sizes of the ids come after the number of
// rows.
void split_columns(onnx::GraphProto& graph, const onnx::NodeProto& node, const SplitPair& pair, std::int64_t opset) {
  const Name base = node.output(0) + "/";
  add_node(graph, "Reshape", {node.input(1), pair.any_size}, base + "ids");
  set_integer(add_node(graph, "Gather", {pair.factors.right, base + "ids"}, base + "columns"), "axis", 1);
  add_node(graph, "MatMul", {pair.factors.left, base + "columns"}, base + "product");
  add_node(graph, "Shape", {node.input(1)}, base + "shape");
  make_result(graph, node, base + "product", {pair.height, base + "shape"}, opset);
}

// The ids as non-negative int64.
Name plain_ids(onnx::GraphProto& graph, const onnx::NodeProto& node, const SplitTable& table) {
  const Name base = node.output(0) + "/";
  set_integer(add_node(graph, "Cast", {node.input(1)}, base + "ids"), "to", TensorProto::INT64);
  if (!table.from_the_end) return base + "ids";
  add_node(graph, "Add", {base + "ids", table.rows}, base + "raised");
  add_node(graph, "Div", {base + "raised", table.rows}, base + "rounds");
  add_node(graph, "Mul", {base + "rounds", table.rows}, base + "surplus");
  add_node(graph, "Sub", {base + "raised", base + "surplus"}, base + "plain_ids");
  return base + "plain_ids";
}

}  // namespace

void split(onnx::GraphProto& graph, onnx::NodeProto node, const SplitPair& pair, std::int64_t opset) {
  const bool looks_up = pair.how == How::rows || pair.how == How::columns;
  if (!looks_up) return split_product(graph, std::move(node), pair);
  if (!pair.factors.left.empty())
    return pair.how == How::rows ? split_rows(graph, node, pair.factors) : split_columns(graph, node, pair, opset);
  node.set_input(0, pair.factors.right);
  *graph.add_node() = std::move(node);
}

void split(onnx::GraphProto& graph, const onnx::NodeProto& node, const SplitTable& table, std::int64_t opset) {
  const Name base = node.output(0) + "/", ids = plain_ids(graph, node, table);
  add_node(graph, "Div", {ids, table.right_rows}, base + "quotient");
  add_node(graph, "Mul", {base + "quotient", table.right_rows}, base + "whole");
  add_node(graph, "Sub", {ids, base + "whole"}, base + "remainder");
  add_node(graph, "Gather", {table.factors.left, base + "quotient"}, base + "left_rows");
  add_node(graph, "Gather", {table.factors.right, base + "remainder"}, base + "right_rows");
  add_node(graph, "Reshape", {base + "left_rows", table.shape_left}, base + "left");
  add_node(graph, "Reshape", {base + "right_rows", table.shape_right}, base + "right");
  add_node(graph, "MatMul", {base + "left", base + "right"}, base + "product");
  add_node(graph, "Shape", {node.input(1)}, base + "shape");
  if (!table.as_columns) return make_result(graph, node, base + "product", {base + "shape", table.width}, opset);
  add_node(graph, "Reshape", {base + "product", table.shape_rows}, base + "rows");
  set_order(add_node(graph, "Transpose", {base + "rows"}, base + "columns"), {1, 0});
  make_result(graph, node, base + "columns", {table.width, base + "shape"}, opset);
}

}  // namespace comera::exporting
