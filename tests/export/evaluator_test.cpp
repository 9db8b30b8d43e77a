#include "lib/export/evaluator/evaluator.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "lib/core/error.h"
#include "lib/export/compare.h"

using namespace comera;
using namespace comera::exporting;

namespace {

Array reals(std::vector<std::int64_t> dims, std::vector<double> values) {
  return {std::move(dims), true, std::move(values), {}};
}
Array integers(std::vector<std::int64_t> dims, std::vector<std::int64_t> values) {
  return {std::move(dims), false, {}, std::move(values)};
}

struct OneNode {
  const char* op;
  std::vector<Array> inputs;
  std::vector<Attribute> attributes = {};
};

// A graph with one node and inputs a, b, c, ...
onnx::ModelProto model_of(const OneNode& node) {
  Graph graph(17, WeightType::f32);
  std::vector<Name> names;
  for (std::size_t i = 0; i < node.inputs.size(); ++i)
    names.push_back(graph.input(std::string(1, static_cast<char>('a' + i)),
                                node.inputs[i].is_real ? onnx::TensorProto::FLOAT : onnx::TensorProto::INT64, {}));
  graph.output(graph.node(node.op, names, node.attributes), "y", {});
  return graph.model();
}

Array run(const OneNode& node, Precision precision = Precision::doubled) {
  Arrays given;
  for (std::size_t i = 0; i < node.inputs.size(); ++i)
    given[std::string(1, static_cast<char>('a' + i))] = node.inputs[i];
  return evaluate(model_of(node), given, precision).at("y");
}

void check(const OneNode& node, const Array& expected) {
  INFO(node.op);
  const Array y = run(node);
  CHECK(y.dims == expected.dims);
  CHECK(y.integers == expected.integers);
  REQUIRE(y.reals.size() == expected.reals.size());
  for (std::size_t i = 0; i < y.reals.size(); ++i)
    CHECK(y.reals[i] == Approx(expected.reals[i]).epsilon(1e-14).margin(1e-300));
}

const Array matrix = reals({2, 3}, {1, 2, 3, 4, 5, 6});

}  // namespace

TEST_CASE("operators compute according to their definitions") {
  check({"Add", {matrix, reals({3}, {10, 20, 30})}}, reals({2, 3}, {11, 22, 33, 14, 25, 36}));
  check({"Sub", {matrix, reals({2, 1}, {1, 2})}}, reals({2, 3}, {0, 1, 2, 2, 3, 4}));
  check({"Mul", {reals({2, 1}, {2, 3}), reals({1, 2}, {5, 7})}}, reals({2, 2}, {10, 14, 15, 21}));
  check({"Div", {integers({3}, {7, 8, 9}), integers({}, {4})}}, integers({3}, {1, 2, 2}));
  check({"Pow", {reals({2}, {3, -2}), reals({}, {2})}}, reals({2}, {9, 4}));
  check({"Max", {reals({2}, {3, -2}), reals({}, {0})}}, reals({2}, {3, 0}));
  check({"LessOrEqual", {integers({1, 3}, {0, 1, 2}), integers({2, 1}, {0, 1})}}, integers({2, 3}, {1, 0, 0, 1, 1, 0}));
  check({"Equal", {integers({1, 3}, {0, 1, 2}), integers({2, 1}, {0, 1})}}, integers({2, 3}, {1, 0, 0, 0, 1, 0}));
  check({"And", {integers({2}, {1, 1}), integers({2}, {0, 1})}}, integers({2}, {0, 1}));
  check({"Where", {integers({2}, {1, 0}), reals({}, {5}), reals({2}, {1, 2})}}, reals({2}, {5, 2}));
  check({"MatMul", {matrix, reals({3, 1}, {1, 0, -1})}}, reals({2, 1}, {-2, -2}));
  check({"MatMul", {reals({2, 1, 2}, {1, 2, 3, 4}), reals({2, 2}, {1, 0, 0, 1})}}, reals({2, 1, 2}, {1, 2, 3, 4}));
  check({"Softmax", {reals({1, 2}, {0, std::log(3.0)})}, {{"axis", std::int64_t{-1}}}}, reals({1, 2}, {0.25, 0.75}));
  check({"ReduceSum", {matrix, integers({1}, {0})}, {{"keepdims", std::int64_t{0}}}}, reals({3}, {5, 7, 9}));
  check({"ReduceMean", {matrix}, {{"axes", std::vector<std::int64_t>{-1}}}}, reals({2, 1}, {2, 5}));
  check({"Sigmoid", {reals({1}, {0})}}, reals({1}, {0.5}));
  check({"Erf", {reals({1}, {0.5})}}, reals({1}, {0.52049987781304653768}));
}

TEST_CASE("operators move elements according to their definitions") {
  check({"Gather", {matrix, integers({2}, {1, -2})}, {{"axis", std::int64_t{0}}}}, reals({2, 3}, {4, 5, 6, 1, 2, 3}));
  check({"Gather", {matrix, integers({}, {2})}, {{"axis", std::int64_t{1}}}}, reals({2}, {3, 6}));
  check({"Reshape", {matrix, integers({3}, {0, -1, 1})}}, reals({2, 3, 1}, {1, 2, 3, 4, 5, 6}));
  check({"Transpose", {matrix}, {{"perm", std::vector<std::int64_t>{1, 0}}}}, reals({3, 2}, {1, 4, 2, 5, 3, 6}));
  check({"Slice", {matrix, integers({1}, {1}), integers({1}, {100}), integers({1}, {1})}}, reals({2, 2}, {2, 3, 5, 6}));
  check({"Concat", {matrix, reals({2, 1}, {7, 8})}, {{"axis", std::int64_t{1}}}},
        reals({2, 4}, {1, 2, 3, 7, 4, 5, 6, 8}));
  check({"Unsqueeze", {reals({2}, {1, 2}), integers({2}, {0, 2})}}, reals({1, 2, 1}, {1, 2}));
  check({"Expand", {reals({2, 1}, {1, 2}), integers({2}, {1, 2})}}, reals({2, 2}, {1, 1, 2, 2}));
  check({"Shape", {matrix}}, integers({2}, {2, 3}));
  check({"Range", {integers({}, {2}), integers({}, {5}), integers({}, {1})}}, integers({3}, {2, 3, 4}));
  check({"CumSum", {integers({2, 3}, {0, 1, 1, 1, 0, 2}), integers({}, {1})}}, integers({2, 3}, {0, 1, 2, 1, 1, 3}));
  check({"CumSum", {integers({2, 2}, {1, 2, 3, 4}), integers({}, {0})}}, integers({2, 2}, {1, 2, 4, 6}));
  check({"ConstantOfShape", {integers({2}, {1, 2})}}, reals({1, 2}, {0, 0}));
  check({"ScatterND", {matrix, integers({1, 1}, {1}), reals({1, 3}, {7, 8, 9})}}, reals({2, 3}, {1, 2, 3, 7, 8, 9}));
  check({"ScatterND", {integers({3}, {0, 0, 0}), integers({2, 1}, {2, 0}), integers({2}, {5, 6})}},
        integers({3}, {6, 0, 5}));
  check({"EyeLike", {reals({2, 2}, {0, 0, 0, 0})}}, reals({2, 2}, {1, 0, 0, 1}));
  check({"Cast", {integers({2}, {0, 3})}, {{"to", std::int64_t{onnx::TensorProto::FLOAT}}}}, reals({2}, {0, 3}));
}

TEST_CASE("single precision rounds where double does not") {
  const OneNode node{"Add", {reals({1}, {1}), reals({1}, {0x1p-30})}};
  CHECK(run(node).reals[0] == 1 + 0x1p-30);
  CHECK(run(node, Precision::single).reals[0] == 1);
}

TEST_CASE("unsupported nodes are errors") {
  CHECK_THROWS_AS(run({"Conv", {matrix}}), InputError);
  CHECK_THROWS_AS(run({"Add", {matrix, reals({2}, {1, 2})}}), InputError);
  CHECK_THROWS_AS(run({"MatMul", {matrix, matrix}}), InputError);
  CHECK_THROWS_AS(run({"Gather", {matrix, integers({1}, {2})}}), InputError);
  CHECK_THROWS_AS(run({"CumSum", {matrix, integers({}, {1})}}), InputError);
  CHECK_THROWS_AS(run({"ScatterND", {matrix, integers({1, 1}, {2}), reals({1, 3}, {7, 8, 9})}}), InputError);
  CHECK_THROWS_AS(run({"ScatterND", {matrix, integers({1, 1}, {0}), reals({1, 2}, {7, 8})}}), InputError);
  CHECK_THROWS_AS(run({"Reshape", {matrix, integers({1}, {5})}}), InputError);
  CHECK_THROWS_AS(run({"Div", {integers({1}, {1}), integers({1}, {0})}}), InputError);
  CHECK_THROWS_AS(evaluate(model_of({"Erf", {matrix}}), {}, Precision::single), InputError);
}

TEST_CASE("a graph that differs by more than rounding is detected") {
  const onnx::ModelProto model = model_of({"MatMul", {matrix, reals({3, 1}, {1, 1, 1})}});
  const auto difference = [&](double off, WeightType type) {
    Difference found;
    add_batch(found, {{10 + off, 1}, {10, 1}, {{10 + 1e-6, 1}, {10, 1}}});
    finish(found, model, type);
    CHECK(found.values == 2);
    return found;
  };
  CHECK(difference(3.9e-6, WeightType::f32).fine());
  CHECK_FALSE(difference(4.1e-6, WeightType::f32).fine());
  CHECK(difference(1e-3, WeightType::f16).fine());
  CHECK_FALSE(difference(std::nan(""), WeightType::f16).fine());
  // A small sample without error still allows for one rounding.
  Difference exact;
  add_batch(exact, {{1 + 0x1p-24}, {1}, {{1}}});
  finish(exact, model, WeightType::f32);
  CHECK(exact.bound == 4 * 0x1p-24);
  CHECK(exact.fine());
}

TEST_CASE("random rounding moves arithmetic nodes by one rounding, and no others") {
  const auto noisy = [](const OneNode& node, std::uint64_t noise) {
    return evaluate(model_of(node),
                    node.inputs.size() == 1 ? Arrays{{"a", matrix}} : Arrays{{"a", matrix}, {"b", node.inputs[1]}},
                    Precision::single, noise)
        .at("y");
  };
  const OneNode sum{"Add", {matrix, reals({3}, {0, 0, 0})}};
  CHECK(noisy(sum, 0).reals == matrix.reals);
  const Array first = noisy(sum, 1), second = noisy(sum, 2);
  CHECK(first.reals == noisy(sum, 1).reals);
  CHECK(first.reals != second.reals);
  for (std::size_t i = 0; i < matrix.reals.size(); ++i) {
    CHECK(first.reals[i] != matrix.reals[i]);
    CHECK(std::fabs(first.reals[i] - matrix.reals[i]) <= 0x1p-22 * matrix.reals[i]);
  }
  CHECK(noisy({"Reshape", {matrix, integers({1}, {6})}}, 1).reals == matrix.reals);
}

TEST_CASE("operators of weights on grids compute according to their definitions") {
  const Attribute axis{"axis", std::int64_t{0}}, block{"block_size", std::int64_t{2}};
  // Rows 0 and 1 share a scale, row 2 has its own.
  check({"DequantizeLinear", {integers({3, 2}, {1, -2, 3, 4, 5, -6}), reals({2, 2}, {0.5, 2, 10, 100})}, {axis, block}},
        reals({3, 2}, {0.5, -4, 1.5, 8, 50, -600}));
  check({"DequantizeLinear", {integers({2, 1}, {7, 9}), reals({1, 1}, {0.25}), integers({1, 1}, {8})}, {axis, block}},
        reals({2, 1}, {-0.25, 0.25}));
  // Two outputs of three inputs, in two blocks of two: bytes 0xLOW + 16 * HIGH, codes from 8.
  check({"MatMulNBits",
         {reals({1, 3}, {1, 10, 100}), integers({2, 2, 1}, {9 + 16 * 10, 7, 8 + 16 * 8, 15}), reals({4}, {1, 2, 3, 4})},
         {{"K", std::int64_t{3}}, {"N", std::int64_t{2}}, {"bits", std::int64_t{4}}, block}},
        reals({1, 2}, {1 + 20 - 200, 2800}));
  check({"MatMulNBits",
         {reals({1, 2}, {1, 10}), integers({1, 1, 2}, {130, 127}), reals({1}, {0.5})},
         {{"K", std::int64_t{2}}, {"N", std::int64_t{1}}, {"bits", std::int64_t{8}}, block}},
        reals({1, 1}, {1 - 5}));
  check({"BitwiseAnd", {integers({2}, {0x5a, 0xff}), integers({}, {15})}}, integers({2}, {0xa, 15}));
  check({"BitShift", {integers({2}, {0x5a, 0xff}), integers({}, {4})}, {{"direction", std::string("RIGHT")}}},
        integers({2}, {5, 15}));
  CHECK_THROWS_WITH(run({"BitShift", {integers({1}, {1}), integers({}, {4})}, {{"direction", std::string("LEFT")}}}),
                    Catch::Matchers::Contains("only shifts to the right"));
  CHECK_THROWS_WITH(
      run({"DequantizeLinear", {integers({3, 2}, {0, 0, 0, 0, 0, 0}), reals({1, 2}, {1, 1})}, {axis, block}}),
      Catch::Matchers::Contains("scales do not fit"));
}
