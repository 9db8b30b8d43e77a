#include "lib/export/graph_layers.h"

#include <cmath>
#include <numbers>
#include <numeric>

#include "lib/core/error.h"
#include "lib/export/graph_grids.h"
#include "models/decoder/rope.h"

namespace comera::exporting {
namespace {

// A matrix that is a constant of the graph.
struct Factor {
  Name name;
  std::int64_t rows = 0, columns = 0;
};

std::string core_name(const StoredChain& chain, std::size_t k) { return fmt::format("{}.tt.{}", chain.name, k); }

// A core as the matrix [rows, ..].
Factor core(Graph& graph, const StoredChain& chain, std::size_t k, std::int64_t rows) {
  const std::int64_t columns = tt::product(chain.layout().core_shape(k)) / rows;
  return {graph.weight(core_name(chain, k), {rows, columns}, chain.numbers.cores[k]), rows, columns};
}

Factor multiply(Graph& graph, const Factor& a, const Factor& b) {
  return {graph.node("MatMul", {a.name, b.name}), a.rows, b.columns};
}

Factor reshape(Graph& graph, const Factor& factor, std::int64_t rows) {
  const std::int64_t columns = factor.rows * factor.columns / rows;
  if (rows == factor.rows) return factor;
  return {graph.reshape(factor.name, {rows, columns}), rows, columns};
}

// [in, R]
Factor merged_left(Graph& graph, const StoredChain& chain) {
  Factor left = core(graph, chain, 0, chain.layout().modes[0]);
  for (std::size_t k = 1; k < chain.layout().middle(); ++k) {
    left = multiply(graph, left, core(graph, chain, k, chain.layout().ranks[k]));
    left = reshape(graph, left, left.rows * chain.layout().modes[k]);
  }
  if (chain.layout().sorted)
    left.name = graph.node("Gather", {left.name, graph.indices(chain.name + ".rows", tt::inverse(chain.numbers.order))},
                           {{"axis", std::int64_t{0}}});
  return left;
}

Name identity(Graph& graph, const StoredChain& chain, std::int64_t size) {
  if (graph.opset() >= 9) return graph.node("EyeLike", {graph.node("ConstantOfShape", {graph.integers({size, size})})});
  std::vector<std::int32_t> places(static_cast<std::size_t>(size));
  std::iota(places.begin(), places.end(), 0);
  const Name across = graph.indices(chain.name + ".diagonal", places);
  return graph.node("Cast", {graph.node("Equal", {graph.reshape(across, {size, 1}), across})},
                    {{"to", std::int64_t{onnx::TensorProto::FLOAT}}});
}

// The columns of [identity | core] in the order of the outputs. The identity block that the gauge omits is restored
// when the file is loaded.
Factor with_identity(Graph& graph, const StoredChain& chain, const Factor& rest) {
  const Name both = graph.node("Concat", {identity(graph, chain, rest.rows), rest.name}, {{"axis", std::int64_t{1}}});
  const Name columns = graph.indices(chain.name + ".columns", tt::gauge_positions(chain.numbers.gauge, chain.columns));
  return {graph.node("Gather", {both, columns}, {{"axis", std::int64_t{1}}}), rest.rows, chain.columns};
}

// [R, out]
Factor merged_right(Graph& graph, const StoredChain& chain) {
  const std::size_t middle = chain.layout().middle(), last = chain.layout().cores();
  Factor right = core(graph, chain, last - 1, chain.layout().ranks[last - 1]);
  for (std::size_t k = last - 1; k-- > middle;) {
    right = multiply(graph, core(graph, chain, k, chain.layout().ranks[k] * chain.layout().modes[k]), right);
    right = reshape(graph, right, chain.layout().ranks[k]);
  }
  return !chain.layout().gauge ? right : with_identity(graph, chain, right);
}

LinearConstants cut(Graph& graph, const Factor& left, const Factor& right) {
  if (left.columns * (left.rows + right.columns) >= left.rows * right.columns)
    return {"", multiply(graph, left, right).name};
  return {left.name, right.name};
}

// Two factors are only useful if they hold fewer numbers than the dense weight.
bool worth_factors(const StoredChain& chain) {
  if (chain.layout().empty()) return true;
  const std::int64_t rank = chain.rank();
  return rank * (chain.rows + chain.columns) < chain.rows * chain.columns;
}

Name times_weight(GraphBuild& build, const std::string& name, const Name& x, std::int64_t in, std::int64_t out) {
  if (const io::ChainSpec* grid = grid_in_graph(build, name)) return times_grid(build, *grid, x);
  const io::ChainSpec* spec = build.weights.chain_spec(name);
  if (spec && build.form != GraphForm::dense) {
    const StoredChain chain = build.weights.chain(*spec);
    if (build.form == GraphForm::tt || worth_factors(chain)) return times_chain(build, chain, x);
  }
  return build.graph.node("MatMul", {x, build.graph.weight(name + ".weight", {in, out},
                                                           build.weights.linear(name, in, out, build.conv1d).values)});
}

// The left or right factor of a table: [rows, columns], merged by nodes from the cores [first, last). In a left factor
// the rank is the last axis, in a right factor the first.
struct TableFactor {
  Name name;
  std::int64_t rows = 1, columns = 1;
};

TableFactor merged_table_left(Graph& graph, const StoredChain& chain) {
  TableFactor factor{graph.weight(core_name(chain, 0),
                                  {chain.layout().modes[0],
                                   chain.layout().modes[chain.layout().cores() + 0] * chain.layout().ranks[1]},
                                  chain.numbers.cores[0]),
                     chain.layout().modes[0], chain.layout().modes[chain.layout().cores() + 0]};
  for (std::size_t k = 1; k < chain.layout().middle(); ++k) {
    const std::int64_t m = chain.layout().modes[k], n = chain.layout().modes[chain.layout().cores() + k],
                       r = chain.layout().ranks[k + 1];
    const Factor next = multiply(graph,
                                 {graph.reshape(factor.name, {factor.rows * factor.columns, chain.layout().ranks[k]}),
                                  factor.rows * factor.columns, chain.layout().ranks[k]},
                                 core(graph, chain, k, chain.layout().ranks[k]));
    const Name split = graph.reshape(next.name, {factor.rows, factor.columns, m, n, r});
    factor = {graph.reshape(graph.transpose(split, {0, 2, 1, 3, 4}), {factor.rows * m, factor.columns * n * r}),
              factor.rows * m, factor.columns * n};
  }
  return factor;
}

TableFactor merged_table_right(Graph& graph, const StoredChain& chain) {
  const std::size_t middle = chain.layout().middle();
  if (middle == chain.layout().cores())
    return {graph.weight(chain.name + ".one", {1, 1}, std::vector<float>{1.0F}), 1, 1};
  // The shape is [R, rows, columns] until the end of the loop.
  const std::int64_t rank = chain.layout().ranks[middle];
  Name name = core(graph, chain, middle, rank).name;
  std::int64_t rows = chain.layout().modes[middle], columns = chain.layout().modes[chain.layout().cores() + middle];
  for (std::size_t k = middle + 1; k < chain.layout().cores(); ++k) {
    const std::int64_t m = chain.layout().modes[k], n = chain.layout().modes[chain.layout().cores() + k],
                       r = chain.layout().ranks[k + 1];
    const std::int64_t height = rank * rows * columns;
    const Factor next =
        multiply(graph, {graph.reshape(name, {height, chain.layout().ranks[k]}), height, chain.layout().ranks[k]},
                 core(graph, chain, k, chain.layout().ranks[k]));
    name = graph.transpose(graph.reshape(next.name, {rank * rows, columns, m, n, r}), {0, 2, 1, 3, 4});
    rows *= m;
    columns *= n;
  }
  const Name parted = graph.transpose(graph.reshape(name, {rank, rows, columns}), {1, 0, 2});
  return {graph.reshape(parted, {rows, rank * columns}), rows, columns};
}

struct TablePair {
  TableFactor left, right;
};

TablePair table_pair(GraphBuild& build, const StoredChain& chain) {
  Graph& graph = build.graph;
  if (build.form == GraphForm::tt) return {merged_table_left(graph, chain), merged_table_right(graph, chain)};
  const tt::TableFactorsOf<float> factors = tt::table_factors(chain.numbers);
  const Name left = graph.weight(chain.name + ".left", {factors.left.rows, factors.left.columns}, factors.left.values);
  const Name right =
      graph.weight(chain.name + ".right", {factors.right.rows, factors.right.columns}, factors.right.values);
  return {{left, factors.left_rows, factors.left_columns}, {right, factors.right_rows, factors.right_columns}};
}

// ids [..] -> left row by the quotient, right row by the remainder, and their product.
Name lookup_factors(Graph& graph, const StoredChain& chain, const Name& ids, const TablePair& pair) {
  const auto& [left, right] = pair;
  const std::int64_t rank = chain.rank();
  if (right.rows == 1) {  // one right factor for all rows, so no copy per token
    const Name rows = graph.reshape(graph.node("Gather", {left.name, ids}), {0, 0, left.columns, rank});
    return graph.reshape(graph.node("MatMul", {rows, graph.reshape(right.name, {rank, right.columns})}),
                         {0, 0, left.columns * right.columns});
  }
  const Name quotient = graph.node("Div", {ids, graph.integer(right.rows)});
  const Name remainder = graph.node("Sub", {ids, graph.node("Mul", {quotient, graph.integer(right.rows)})});
  const Name a = graph.reshape(graph.node("Gather", {left.name, quotient}), {0, 0, left.columns, rank});
  const Name b = graph.reshape(graph.node("Gather", {right.name, remainder}), {0, 0, rank, right.columns});
  return graph.reshape(graph.node("MatMul", {a, b}), {0, 0, left.columns * right.columns});
}

Name exact_ids(Graph& graph, const StoredChain& chain) {
  return graph.node("Cast", {graph.indices(chain.name + ".exact.ids", chain.numbers.exact_ids)},
                    {{"to", std::int64_t{onnx::TensorProto::INT64}}});
}

Name exact_rows(Graph& graph, const StoredChain& chain) {
  return graph.weight(chain.name + ".exact.rows", {chain.layout().exact_rows, chain.columns}, chain.numbers.exact_rows);
}

Name exact_places(Graph& graph, const StoredChain& chain, const Name& ids) {
  return graph.reshape(ids, {chain.layout().exact_rows, 1});
}

Name dense_table_name(GraphBuild& build, const std::string& name, std::int64_t rows, std::int64_t columns) {
  return build.graph.weight(name + ".weight", {rows, columns}, build.weights.table(name, rows, columns).values);
}

}  // namespace

const char* name_of(GraphForm form) {
  return form == GraphForm::tt ? "tt" : form == GraphForm::factors ? "factors" : "dense";
}

LinearConstants linear_constants(GraphBuild& build, const StoredChain& chain) {
  Graph& graph = build.graph;
  if (build.form == GraphForm::tt && !chain.layout().empty())
    return cut(graph, merged_left(graph, chain), merged_right(graph, chain));
  // An empty chain becomes a zero chain of rank 1, which gives the shape of the outputs.
  const tt::FactorsOf<float> factors = chain.layout().empty()
                                           ? tt::FactorsOf<float>{Matrix(chain.rows, 1), Matrix(1, chain.columns)}
                                           : tt::factors(chain.numbers);
  return {graph.weight(chain.name + ".left", {factors.left.rows, factors.left.columns}, factors.left.values),
          graph.weight(chain.name + ".right", {factors.right.rows, factors.right.columns}, factors.right.values)};
}

TableConstants table_constants(GraphBuild& build, const StoredChain& chain) {
  const TablePair pair = table_pair(build, chain);
  return {pair.left.name, pair.right.name, pair.left.columns, chain.rank(), pair.right.rows, pair.right.columns};
}

Name times_chain(GraphBuild& build, const StoredChain& chain, const Name& x) {
  const LinearConstants factors = linear_constants(build, chain);
  return build.graph.node("MatMul",
                          {factors.left.empty() ? x : build.graph.node("MatMul", {x, factors.left}), factors.right});
}

Name with_exact_rows(Graph& graph, const StoredChain& chain, const Name& ids, const Name& y) {
  if (chain.layout().exact_rows == 0) return y;
  const Name own = exact_ids(graph, chain);
  const Name zeros = graph.node("Expand", {graph.integer(0), graph.integers({chain.rows})});
  const Name count =
      graph.node("Range", {graph.integer(0), graph.integer(chain.layout().exact_rows), graph.integer(1)});
  const Name place_of = graph.node("ScatterND", {zeros, exact_places(graph, chain, own), count});
  const Name place = graph.node("Gather", {place_of, ids});
  const Name is_exact = graph.node("Equal", {graph.node("Gather", {own, place}), ids});
  return graph.node("Where", {graph.node("Unsqueeze", {is_exact, graph.integers({2})}),
                              graph.node("Gather", {exact_rows(graph, chain), place}), y});
}

Name table_with_exact_rows(Graph& graph, const StoredChain& chain, const Name& table) {
  if (chain.layout().exact_rows == 0) return table;
  return graph.node("ScatterND",
                    {table, exact_places(graph, chain, exact_ids(graph, chain)), exact_rows(graph, chain)});
}

Name lookup_chain(GraphBuild& build, const StoredChain& chain, const Name& ids) {
  return with_exact_rows(build.graph, chain, ids, lookup_factors(build.graph, chain, ids, table_pair(build, chain)));
}

Name linear(GraphBuild& build, const std::string& name, const Name& x, std::int64_t in, std::int64_t out) {
  const Graph::Scope scope(build.graph, name);
  Name y = times_weight(build, name, x, in, out);
  if (!build.weights.has_tensor(name + ".bias")) return y;
  return build.graph.node("Add",
                          {y, build.graph.weight(name + ".bias", {out}, build.weights.tensor(name + ".bias", {out}))});
}

Name lookup(GraphBuild& build, const std::string& name, const Name& ids, std::int64_t rows, std::int64_t columns) {
  Graph& graph = build.graph;
  const Graph::Scope scope(graph, name);
  if (const io::ChainSpec* grid = grid_in_graph(build, name)) return lookup_grid(build, *grid, ids);
  const io::ChainSpec* spec = build.weights.chain_spec(name);
  if (!spec || build.form == GraphForm::dense || spec->layout.empty())
    return graph.node("Gather", {dense_table_name(build, name, rows, columns), ids});
  return lookup_chain(build, build.weights.chain(*spec), ids);
}

Name tied_decoder(GraphBuild& build, const std::string& name, const Name& x, std::int64_t rows, std::int64_t columns) {
  Graph& graph = build.graph;
  const Graph::Scope scope(graph, "decoder");
  if (const io::ChainSpec* grid = grid_in_graph(build, name)) return times_table_grid(build, *grid, x);
  const io::ChainSpec* spec = build.weights.chain_spec(name);
  if (!spec || build.form == GraphForm::dense || spec->layout.empty())
    return graph.node("MatMul", {x, graph.transpose(dense_table_name(build, name, rows, columns), {1, 0})});
  // The whole table from its factors: [left rows, 1, left columns, R] [right rows, R, right columns], then rows and
  // columns are merged.
  const StoredChain chain = build.weights.chain(*spec);
  const std::int64_t rank = chain.rank();
  const auto [left, right] = table_pair(build, chain);
  const Name a = graph.reshape(left.name, {left.rows, 1, left.columns, rank});
  const Name b = graph.reshape(right.name, {right.rows, rank, right.columns});
  const Name table = graph.reshape(graph.node("MatMul", {a, b}), {left.rows * right.rows, columns});
  const Name used = graph.node("Slice", {table, graph.integers({0}), graph.integers({rows}), graph.integers({0})});
  return graph.node("MatMul", {x, graph.transpose(table_with_exact_rows(graph, chain, used), {1, 0})});
}

Name sum(Graph& graph, const Name& x, std::int64_t axis, bool keep) {
  return graph.node("ReduceSum", {x, graph.integers({axis})}, {{"keepdims", std::int64_t{keep}}});
}

Name mean(Graph& graph, const Name& x, std::int64_t axis) {
  if (graph.opset() >= 18) return graph.node("ReduceMean", {x, graph.integers({axis})});
  return graph.node("ReduceMean", {x}, {{"axes", std::vector<std::int64_t>{axis}}});
}

Name layer_norm(GraphBuild& build, const std::string& name, const Name& x, std::int64_t columns, double epsilon) {
  Graph& graph = build.graph;
  const Graph::Scope scope(graph, name);
  const Name gain = graph.weight(name + ".weight", {columns}, build.weights.tensor(name + ".weight", {columns}));
  std::vector<Name> shift;
  if (build.weights.has_tensor(name + ".bias"))
    shift.push_back(graph.weight(name + ".bias", {columns}, build.weights.tensor(name + ".bias", {columns})));
  if (graph.opset() >= 17) {
    std::vector<Name> inputs{x, gain};
    inputs.insert(inputs.end(), shift.begin(), shift.end());
    return graph.node("LayerNormalization", inputs,
                      {{"axis", std::int64_t{-1}}, {"epsilon", static_cast<float>(epsilon)}});
  }
  const Name centred = graph.node("Sub", {x, mean(graph, x, -1)});
  const Name variance = mean(graph, graph.node("Mul", {centred, centred}), -1);
  const Name deviation = graph.node("Sqrt", {graph.node("Add", {variance, graph.scalar(static_cast<float>(epsilon))})});
  const Name scaled = graph.node("Mul", {graph.node("Div", {centred, deviation}), gain});
  return shift.empty() ? scaled : graph.node("Add", {scaled, shift.front()});
}

RotaryNodes rotary_nodes(Graph& graph, const std::string& name, const Name& positions,
                         const kernels::RotaryAngles& angles, std::int64_t head_size) {
  std::vector<float> frequencies(static_cast<std::size_t>(head_size / 2));
  for (std::size_t i = 0; i < frequencies.size(); ++i)
    frequencies[i] = static_cast<float>(models::frequency_of(angles, static_cast<std::int64_t>(i), head_size));
  const Name turned =
      graph.node("Mul", {graph.node("Cast", {positions}, {{"to", std::int64_t{onnx::TensorProto::FLOAT}}}),
                         graph.floats(name, frequencies)});
  const auto scaled = [&](const Name& x) {
    return angles.amplitude == 1 ? x : graph.node("Mul", {x, graph.scalar(static_cast<float>(angles.amplitude))});
  };
  return {scaled(graph.node("Cos", {turned})), scaled(graph.node("Sin", {turned}))};
}

Name columns_of(Graph& graph, const Name& x, std::int64_t axes, std::int64_t first, std::int64_t last) {
  return graph.node("Slice", {x, graph.integers({first}), graph.integers({last}), graph.integers({axes - 1})});
}

Name rotate(Graph& graph, const RotaryNodes& by, const Name& x, std::int64_t head_size) {
  const std::int64_t half = head_size / 2;
  const Name a = columns_of(graph, x, 4, 0, half), b = columns_of(graph, x, 4, half, head_size);
  const Name first = graph.node("Sub", {graph.node("Mul", {a, by.cosines}), graph.node("Mul", {b, by.sines})});
  const Name second = graph.node("Add", {graph.node("Mul", {b, by.cosines}), graph.node("Mul", {a, by.sines})});
  return graph.node("Concat", {first, second}, {{"axis", std::int64_t{-1}}});
}

// Written as a power, not as a product, because runtimes search for this pattern of the norm.
Name rms_norm(GraphBuild& build, const std::string& name, const Name& x, std::int64_t columns, double epsilon) {
  Graph& graph = build.graph;
  const Graph::Scope scope(graph, name);
  const Name gain = graph.weight(name + ".weight", {columns}, build.weights.tensor(name + ".weight", {columns}));
  const Name square = mean(graph, graph.node("Pow", {x, graph.scalar(2.0F)}), -1);
  const Name root = graph.node("Sqrt", {graph.node("Add", {square, graph.scalar(static_cast<float>(epsilon))})});
  return graph.node("Mul", {graph.node("Div", {x, root}), gain});
}

Name silu(Graph& graph, const Name& x) { return graph.node("Mul", {x, graph.node("Sigmoid", {x})}); }

Name gelu(Graph& graph, const Name& x) {
  const Name error = graph.node("Erf", {graph.node("Div", {x, graph.scalar(std::sqrt(2.0F))})});
  return graph.node("Mul",
                    {graph.node("Mul", {x, graph.node("Add", {error, graph.scalar(1.0F)})}), graph.scalar(0.5F)});
}

Name gelu_tanh(Graph& graph, const Name& x) {
  const Name cube = graph.node("Mul", {graph.node("Pow", {x, graph.scalar(3.0F)}), graph.scalar(0.044715F)});
  const Name argument = graph.node(
      "Mul", {graph.node("Add", {x, cube}), graph.scalar(static_cast<float>(std::sqrt(2 / std::numbers::pi)))});
  const Name share = graph.node("Add", {graph.node("Tanh", {argument}), graph.scalar(1.0F)});
  return graph.node("Mul", {graph.node("Mul", {x, share}), graph.scalar(0.5F)});
}

Name tanh(Graph& graph, const Name& x) { return graph.node("Tanh", {x}); }

}  // namespace comera::exporting
