#include "lib/export/graph_layers.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <functional>

#include "lib/core/error.h"
#include "tests/core/temporary_folder.h"
#include "tests/export/chains_in_graphs.h"

using namespace comera;
using namespace comera::exporting;

namespace {

// A folder without chains, for graphs that get their weights from elsewhere.
struct EmptyFolder {
  EmptyFolder() {
    write_file_atomic(place / "config.json", "{}\n");
    io::write_safetensors(
        place / "model.safetensors",
        {{"norm.weight", io::StoredType::F32, {3}, gain.data()}, {"norm.bias", io::StoredType::F32, {3}, shift.data()}},
        {});
  }
  TemporaryFolder place;
  std::vector<float> gain{1, 2, 3}, shift{0.5F, 0, -1};
};

using Layer = std::function<Name(GraphBuild&, const Name&)>;

// The output of a layer for `x`, computed in double.
Array run(const Layer& layer, const Array& x, GraphForm form, WeightType type = WeightType::f32, int opset = 17) {
  const EmptyFolder empty;
  const io::ModelFolder folder(empty.place.path());
  const WeightReader weights(folder);
  Graph graph(opset, type);
  GraphBuild build{graph, weights, form};
  graph.input("x", x.is_real ? onnx::TensorProto::FLOAT : onnx::TensorProto::INT64, {"batch_size", "sequence_length"});
  graph.output(layer(build, "x"), "y", {});
  io::check_onnx(graph.model(), "graph");
  return evaluate(graph.model(), {{"x", x}}, Precision::doubled).at("y");
}

Array random_rows(std::int64_t columns) {
  const std::vector<float> values = random_floats(2 * 3 * columns, 99);
  return {{2, 3, columns}, true, {values.begin(), values.end()}, {}};
}

// An entry of the weight of a chain with order and gauge, computed from the plain chain. `row` is in the order of the
// weight.
double weight_entry(const StoredChain& chain, std::int64_t row, std::int64_t out) {
  const auto& [order, gauge] = std::tie(chain.numbers.order, chain.numbers.gauge);
  std::int64_t in = row;
  for (std::size_t p = 0; p < order.size(); ++p)
    if (order[p] == row) in = static_cast<std::int64_t>(p);
  if (gauge.empty()) return linear_entry(chain, in, out);
  StoredChain plain = chain;  // with the complete right factor in place of its stored columns
  plain.numbers.layout.gauge = false;
  const std::int64_t rank = std::ssize(gauge), columns = chain.columns, stored = columns - rank;
  std::vector<float> whole(static_cast<std::size_t>(rank * columns));
  std::int64_t next = 0;
  for (std::int64_t j = 0; j < columns; ++j) {
    const auto unit = std::find(gauge.begin(), gauge.end(), j);
    for (std::int64_t r = 0; r < rank; ++r)
      whole[static_cast<std::size_t>(r * columns + j)] =
          unit != gauge.end() ? (unit - gauge.begin() == r ? 1.0F : 0.0F)
                              : chain.numbers.cores.back()[static_cast<std::size_t>(r * stored + next)];
    next += unit == gauge.end();
  }
  plain.numbers.cores.back() = whole;
  return linear_entry(plain, in, out);
}

// Factors are merged in float: each entry has a few roundings of sums, whose terms have magnitude one here.
void check_linear(const StoredChain& chain, GraphForm form) {
  const Array x = random_rows(chain.rows);
  const Array y = run([&](GraphBuild& build, const Name& in) { return times_chain(build, chain, in); }, x, form);
  REQUIRE(y.dims == std::vector<std::int64_t>{2, 3, chain.columns});
  for (std::int64_t k = 0; k < 6; ++k)
    for (std::int64_t j = 0; j < chain.columns; ++j) {
      double sum = 0, magnitude = 0;
      for (std::int64_t i = 0; i < chain.rows; ++i) {
        const double term = x.reals[static_cast<std::size_t>(k * chain.rows + i)] * weight_entry(chain, i, j);
        sum += term;
        magnitude += std::fabs(term);
      }
      // Factors are rounded to float once per merge. The error is relative to sums of magnitudes over the ranks, at
      // most the ranks times the magnitude of the entry.
      CHECK(std::fabs(y.reals[static_cast<std::size_t>(k * chain.columns + j)] - sum) <=
            0x1p-24 * 64 * (magnitude + 1));
    }
}

}  // namespace

TEST_CASE("graph layers: the reader of weights counts the bytes of what it reads") {
  const EmptyFolder empty;
  const io::ModelFolder folder(empty.place.path());
  TaskProgress task("building", 24, TaskUnit::bytes);
  const WeightReader weights(folder, &task);
  CHECK(tasks_at_hand().back().done == 0);
  weights.tensor("norm.weight", {3});
  CHECK(tasks_at_hand().back().done == 12);
  weights.tensor("norm.bias", {3});
  CHECK(tasks_at_hand().back().done == 24);
}

TEST_CASE("a chain in a graph computes the same as its dense weight") {
  for (const GraphForm form : {GraphForm::tt, GraphForm::factors}) {
    check_linear(random_linear({3, 2}, {2, 4}, {1, 3, 2, 2, 1}, 1), form);
    check_linear(random_linear({3, 2, 2}, {5}, {1, 2, 3, 2, 1}, 2), form);
    check_linear(random_linear({4}, {2, 3}, {1, 2, 3, 1}, 3), form);
    check_linear(random_linear({7}, {5}, {1, 2, 1}, 4), form);
  }
}

TEST_CASE("a chain whose factors would be slower than its weight is multiplied out") {
  check_linear(random_linear({4}, {4}, {1, 4, 1}, 5), GraphForm::tt);
}

TEST_CASE("graphs restore the order of inputs and the gauge") {
  StoredChain chain = random_linear({3, 2}, {7}, {1, 3, 2, 1}, 6);
  chain.numbers.order = {4, 0, 5, 2, 1, 3};
  chain.numbers.layout.sorted = true;
  for (const GraphForm form : {GraphForm::tt, GraphForm::factors}) check_linear(chain, form);
  chain.numbers.gauge = {5, 1};
  chain.numbers.layout.gauge = true;
  chain.numbers.cores.back() = random_floats(2 * 5, 7);
  for (const GraphForm form : {GraphForm::tt, GraphForm::factors}) check_linear(chain, form);
}

TEST_CASE("an empty chain gives zeros of the right shape") {
  StoredChain chain = random_linear({3, 2}, {2, 4}, {1, 3, 2, 2, 1}, 8);
  chain.numbers.layout.ranks = {1, 0, 0, 0, 1};
  chain.numbers.cores.clear();
  const Array y = run([&](GraphBuild& build, const Name& x) { return times_chain(build, chain, x); }, random_rows(6),
                      GraphForm::tt);
  CHECK(y.dims == std::vector<std::int64_t>{2, 3, 8});
  CHECK(y.reals == std::vector<double>(48, 0.0));
}

TEST_CASE("a table in a graph gives the rows of its chain") {
  const auto check = [](const StoredChain& chain, GraphForm form) {
    Array ids{{2, 3}, false, {}, {0, 1, chain.rows - 1, 5, 2, 3}};
    const Array rows = run([&](GraphBuild& build, const Name& x) { return lookup_chain(build, chain, x); }, ids, form);
    REQUIRE(rows.dims == std::vector<std::int64_t>{2, 3, chain.columns});
    for (std::size_t k = 0; k < ids.integers.size(); ++k)
      for (std::int64_t j = 0; j < chain.columns; ++j)
        CHECK(rows.reals[k * static_cast<std::size_t>(chain.columns) + static_cast<std::size_t>(j)] ==
              Approx(table_entry(chain, ids.integers[k], j)).epsilon(1e-5).margin(1e-5));
  };
  for (const GraphForm form : {GraphForm::tt, GraphForm::factors}) {
    check(random_table(11, {3, 2, 2}, {2, 1, 3}, {1, 3, 2, 1}, 20), form);
    check(random_table(23, {2, 3, 2, 2}, {2, 2, 3, 1}, {1, 3, 4, 2, 1}, 21), form);
    check(random_table(10, {4, 3}, {2, 3}, {1, 5, 1}, 22), form);
    check(random_table(7, {7}, {4}, {1, 1}, 23), form);
    check(random_table(7, {7, 1}, {1, 4}, {1, 2, 1}, 24), form);
    check(random_table(7, {7, 1}, {2, 2}, {1, 3, 1}, 25), form);
  }
}

TEST_CASE("exact rows overwrite rows of the chain, in look-ups and in a tied decoder") {
  StoredChain chain = random_table(11, {3, 2, 2}, {2, 1, 3}, {1, 3, 2, 1}, 20);
  chain.numbers.exact_ids = {1, 4, 10};
  chain.numbers.exact_rows = random_floats(18, 5);
  chain.numbers.layout.exact_rows = 3;
  const Matrix dense = tt::first_rows(tt::expand(chain.numbers), 11);
  for (std::int64_t i = 0; i < 11; ++i)
    for (std::int64_t j = 0; j < 6; ++j) {
      const auto exact = std::find(chain.numbers.exact_ids.begin(), chain.numbers.exact_ids.end(), i);
      const double entry =
          exact == chain.numbers.exact_ids.end()
              ? table_entry(chain, i, j)
              : chain.numbers.exact_rows[static_cast<std::size_t>((exact - chain.numbers.exact_ids.begin()) * 6 + j)];
      CHECK(dense.values[static_cast<std::size_t>(i * 6 + j)] == Approx(entry).epsilon(1e-5).margin(1e-5));
    }
  const Array ids{{2, 3}, false, {}, {0, 1, 10, 4, 2, 1}};
  for (const GraphForm form : {GraphForm::tt, GraphForm::factors}) {
    const Array rows = run([&](GraphBuild& build, const Name& x) { return lookup_chain(build, chain, x); }, ids, form);
    REQUIRE(rows.dims == std::vector<std::int64_t>{2, 3, 6});
    for (std::size_t k = 0; k < 6; ++k)
      for (std::size_t j = 0; j < 6; ++j) {
        const float wanted = dense.values[static_cast<std::size_t>(ids.integers[k]) * 6 + j];
        CHECK(rows.reals[k * 6 + j] == Approx(wanted).epsilon(1e-5).margin(1e-5));
        if (k != 0 && k != 4) CHECK(rows.reals[k * 6 + j] == wanted);
      }
  }
}

TEST_CASE("LayerNorm as an operator equals LayerNorm from its parts") {
  const Array x{{1, 2, 3}, true, {1, 2, 6, -1, 0, 0.5}, {}};
  const Layer norm = [](GraphBuild& build, const Name& in) { return layer_norm(build, "norm", in, 3, 1e-3); };
  const Array whole = run(norm, x, GraphForm::tt), parts = run(norm, x, GraphForm::tt, WeightType::f32, 16),
              late = run(norm, x, GraphForm::tt, WeightType::f32, 18);
  for (std::size_t i = 0; i < 6; ++i) {
    const double mean = i < 3 ? 3 : -1.0 / 6, variance = i < 3 ? 14.0 / 3 : (1 + 0.25) / 3 - 1.0 / 36;
    const double expected = (x.reals[i] - mean) / std::sqrt(variance + 1e-3F) * static_cast<double>(i % 3 + 1) +
                            std::vector<double>{0.5, 0, -1}[i % 3];
    CHECK(whole.reals[i] == Approx(expected).epsilon(1e-12));
    CHECK(parts.reals[i] == Approx(expected).epsilon(1e-12));
    CHECK(late.reals[i] == whole.reals[i]);
  }
}

TEST_CASE("GELU uses the error function") {
  const Array y = run([](GraphBuild& build, const Name& x) { return gelu(build.graph, x); },
                      {{1, 3}, true, {-1, 0, 2}, {}}, GraphForm::tt);
  CHECK(y.reals[0] == Approx(-0.15865525393).epsilon(1e-6));
  CHECK(y.reals[1] == 0);
  CHECK(y.reals[2] == Approx(1.95449973610).epsilon(1e-6));
}

TEST_CASE("half precision rounds only the weights") {
  const StoredChain chain = random_linear({3}, {2}, {1, 1, 1}, 30);
  const Layer layer = [&](GraphBuild& build, const Name& x) { return times_chain(build, chain, x); };
  const Array x = random_rows(3), full = run(layer, x, GraphForm::tt),
              half = run(layer, x, GraphForm::tt, WeightType::f16);
  for (std::size_t i = 0; i < full.reals.size(); ++i) {
    // Both factors of every product are rounded by at most 2^-11.
    CHECK(std::fabs(half.reals[i] - full.reals[i]) <= 2.01 * 0x1p-11 * 20);
    CHECK(half.reals[i] != full.reals[i]);
  }
  StoredChain large = chain;
  large.numbers.cores[0][0] = 70000;
  const Layer refused = [&](GraphBuild& build, const Name& in) { return times_chain(build, large, in); };
  CHECK_THROWS_AS(run(refused, x, GraphForm::tt, WeightType::f16), InputError);
}

TEST_CASE("opsets out of range are errors") {
  CHECK_THROWS_AS(Graph(12, WeightType::f32), InputError);
  CHECK_THROWS_AS(Graph(22, WeightType::f32), InputError);
}
