#include "lib/export/graph_grids.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <random>

#include "lib/core/error.h"
#include "lib/quant/rounding.h"
#include "tests/core/temporary_folder.h"
#include "tests/export/chains_in_graphs.h"

using namespace comera;
using namespace comera::exporting;

namespace {

constexpr std::int64_t in = 40, out = 7, words = 6, rank = 2;  // lines of 40 have a short last block

// A linear weight "w" and a table "t" on a grid; `corrected`: "w" has a correction, `exact`: "t" has exact rows.
struct Model {
  explicit Model(quant::Grid grid, bool corrected, bool exact = false) {
    const std::vector<float> numbers = random_floats(in * out, 3), rows = random_floats(words * in, 4);
    tt::Matrix weight(in, out), table(words, in);
    std::copy(numbers.begin(), numbers.end(), weight.values.begin());
    std::copy(rows.begin(), rows.end(), table.values.begin());
    const quant::Quantised w = quant::round_linear(weight, grid), t = quant::round_table(table, grid);
    const std::vector<std::int32_t> ids{1, 4};
    io::ComeraBlock block;
    block.chains = {chain_of("w", {out, in}, tt::tt_layout({in}, {out}, {1, corrected * rank, 1}), grid),
                    chain_of("t", {words, in}, tt::ttm_layout({words, 1}, {1, in}, {1, 0, 1}), grid)};
    if (exact) block.chains[1].layout.exact_rows = std::ssize(ids);
    write_file_atomic(place / "config.json", io::json_text({{"comera", io::to_json(block)}}));
    const std::int64_t line = quant::line_bytes(grid, in);
    const std::vector<float> left = random_floats(in * rank, 5), right = random_floats(2 * in, 6);
    std::vector<io::TensorToWrite> tensors{{"w.base", io::StoredType::U8, {out, line}, w.bytes.data()},
                                           {"t.base", io::StoredType::U8, {words, line}, t.bytes.data()}};
    if (corrected) {
      tensors.push_back({"w.tt.0", io::StoredType::F32, {1, in, rank}, left.data()});
      tensors.push_back({"w.tt.1", io::StoredType::F32, {rank, out, 1}, right.data()});
    }
    if (exact) {
      tensors.push_back({"t.exact.ids", io::StoredType::I32, {std::ssize(ids)}, ids.data()});
      tensors.push_back({"t.exact.rows", io::StoredType::F32, {std::ssize(ids), in}, right.data()});
    }
    io::write_safetensors(place / "model.safetensors", tensors, io::weights_metadata());
  }
  static io::ChainSpec chain_of(const char* name, const io::FileShape& shape, const tt::Layout& layout,
                                quant::Grid grid) {
    io::ChainSpec chain;
    chain.name = name;
    chain.shape = shape;
    chain.layout = layout;
    chain.initial_ranks = {1, rank, 1};
    chain.folded = true;
    chain.base = grid;
    return chain;
  }
  TemporaryFolder place;
};

using Layer = std::function<Name(GraphBuild&, const Name&)>;

Array run(const Model& model, GridForm grids, const Layer& layer, const Array& x, OtherForms* others = nullptr) {
  const io::ModelFolder folder(model.place.path());
  const WeightReader weights(folder, nullptr, others);
  Graph graph(21, WeightType::f32);
  GraphBuild build{graph, weights, GraphForm::tt, grids};
  graph.input("x", x.is_real ? onnx::TensorProto::FLOAT : onnx::TensorProto::INT64, {"batch_size", "sequence_length"});
  graph.output(layer(build, "x"), "y", {});
  io::check_onnx(graph.model(), "graph");
  return evaluate(graph.model(), {{"x", x}}, Precision::doubled).at("y");
}

// The weight as the rest of the program reads it.
tt::FloatMatrix matrix_of(const Model& model, std::size_t chain) {
  const io::ModelFolder folder(model.place.path());
  const io::ComeraBlock block = *io::parse_comera_block(folder.config(), "");
  return io::read_matrix(folder, block.chains[chain], {});
}

// y = x W. The reader rounds each number of W to float once or twice.
template <class Entry>
void check_product(const Array& x, const Array& y, std::int64_t inner, std::int64_t outputs, const Entry& entry) {
  REQUIRE(y.dims == std::vector<std::int64_t>{2, 3, outputs});
  double worst = 0;
  for (std::int64_t k = 0; k < 6; ++k)
    for (std::int64_t j = 0; j < outputs; ++j) {
      double sum = 0, magnitude = 0;
      for (std::int64_t i = 0; i < inner; ++i) {
        const double term = x.reals[static_cast<std::size_t>(k * inner + i)] * entry(i, j);
        sum += term;
        magnitude += std::fabs(term);
      }
      worst = std::max(worst, std::fabs(y.reals[static_cast<std::size_t>(k * outputs + j)] - sum) / (magnitude + 1));
    }
  CHECK(worst <= 0x1p-22);
}

Array random_rows(std::int64_t columns) {
  const std::vector<float> values = random_floats(2 * 3 * columns, 99);
  return {{2, 3, columns}, true, {values.begin(), values.end()}, {}};
}

}  // namespace

TEST_CASE("graph grids: products with linear weights are those of the stored numbers") {
  for (const quant::Grid grid : quant::all_grids)
    for (const GridForm form : {GridForm::qdq, GridForm::nbits})
      for (const bool corrected : {false, true}) {
        INFO(quant::name_of(grid) << " " << (form == GridForm::qdq) << " " << corrected);
        const Model model(grid, corrected);
        const Array x = random_rows(in);
        OtherForms others;
        const Array y = run(
            model, form, [](GraphBuild& build, const Name& name) { return linear(build, "w", name, in, out); }, x,
            &others);
        CHECK(others.dense.empty());
        CHECK(others.widened.contains("w") == (quant::bits_of(grid) < 4));
        const tt::FloatMatrix weight = matrix_of(model, 0);
        check_product(x, y, in, out, [&](std::int64_t i, std::int64_t j) { return weight(i, j); });
      }
}

TEST_CASE("graph grids: rows of tables, and the table as a decoder") {
  const bool exact = GENERATE(false, true);
  for (const quant::Grid grid : quant::all_grids) {
    INFO(quant::name_of(grid) << " " << exact);
    const Model model(grid, false, exact);
    const tt::FloatMatrix table = matrix_of(model, 1);
    const Array ids{{2, 3}, false, {}, {5, 0, 1, 1, 4, 2}};
    const Array rows = run(
        model, GridForm::qdq, [](GraphBuild& build, const Name& name) { return lookup(build, "t", name, words, in); },
        ids);
    REQUIRE(rows.dims == std::vector<std::int64_t>{2, 3, in});
    double worst = 0;
    for (std::size_t k = 0; k < 6; ++k)
      for (std::int64_t i = 0; i < in; ++i)
        worst =
            std::max(worst, std::fabs(rows.reals[k * in + static_cast<std::size_t>(i)] - table(ids.integers[k], i)));
    CHECK(worst <= 0x1p-21);
    const Array x = random_rows(in);
    const Array decoded = run(
        model, GridForm::nbits,
        [](GraphBuild& build, const Name& name) { return tied_decoder(build, "t", name, words, in); }, x);
    check_product(x, decoded, in, words, [&](std::int64_t i, std::int64_t j) { return table(j, i); });
  }
}

TEST_CASE("graph grids: a dense graph has no codes") {
  const Model model(quant::Grid::q4_0, true);
  const Array x = random_rows(in);
  const Layer layer = [](GraphBuild& build, const Name& name) { return linear(build, "w", name, in, out); };
  OtherForms others;
  const Array dense = run(model, GridForm::dense, layer, x, &others);
  CHECK(others.dense == std::set<std::string>{"w"});
  CHECK(others.widened.empty());
  const tt::FloatMatrix weight = matrix_of(model, 0);
  check_product(x, dense, in, out, [&](std::int64_t i, std::int64_t j) { return weight(i, j); });
}
