// Writes layers as nodes of standard ONNX operators.
#pragma once

#include "kernels/rotary.h"
#include "lib/export/chains.h"
#include "lib/export/graph.h"

namespace comera::exporting {

// The inputs of graph building.
struct GraphBuild {
  Graph& graph;
  const WeightReader& weights;
  GraphForm form;
  GridForm grids = GridForm::dense;
  bool conv1d = false;  // files store dense linear weights as [in, out]
};

// y [.., out] = x [.., in] W + b; the bias is added if the folder has one. A chain whose two factors would be slower
// than the dense weight is multiplied out (by nodes in form tt).
Name linear(GraphBuild& build, const std::string& name, const Name& x, std::int64_t in, std::int64_t out);
// Two constants whose product is the chain's weight. If the dense weight is cheaper, `left` is empty and `right` is the
// weight.
struct LinearConstants {
  Name left, right;  // [in, R], [R, out]
};
LinearConstants linear_constants(GraphBuild& build, const StoredChain& chain);  // in form tt or factors
// See TableHalves.
struct TableConstants {
  Name left, right;  // [left rows, left columns * rank], [right rows, rank * right columns]
  std::int64_t left_columns = 0, rank = 0, right_rows = 0, right_columns = 0;
};
TableConstants table_constants(GraphBuild& build, const StoredChain& chain);
// x W of a chain, without a bias, in form tt or factors.
Name times_chain(GraphBuild& build, const StoredChain& chain, const Name& x);
// Rows of a table by ids: [.., columns].
Name lookup(GraphBuild& build, const std::string& name, const Name& ids, std::int64_t rows, std::int64_t columns);
// The rows `y` of a table for `ids`, overwritten for ids of exact rows of the chain. A position in the exact rows is
// looked up for every id, 0 for ids without an exact row; an id is exact if it equals the id of the exact row there.
Name with_exact_rows(Graph& graph, const StoredChain& chain, const Name& ids, const Name& y);
// The same for a whole table.
Name table_with_exact_rows(Graph& graph, const StoredChain& chain, const Name& table);
Name lookup_chain(GraphBuild& build, const StoredChain& chain, const Name& ids);
// x tableᵀ, the decoder of a language model that shares its table.
Name tied_decoder(GraphBuild& build, const std::string& name, const Name& x, std::int64_t rows, std::int64_t columns);
// Cosines and sines of rotary positions, for positions of any shape: [.., 1, size / 2].
struct RotaryNodes {
  Name cosines, sines;
};
RotaryNodes rotary_nodes(Graph& graph, const std::string& name, const Name& positions,
                         const kernels::RotaryAngles& angles, std::int64_t head_size);
// x [batch, sequence, heads, size]: rotates the pairs (i, i + size / 2).
Name rotate(Graph& graph, const RotaryNodes& by, const Name& x, std::int64_t head_size);
// Columns [first, last) of the last of `axes` axes.
Name columns_of(Graph& graph, const Name& x, std::int64_t axes, std::int64_t first, std::int64_t last);
// Over the last axis, with `<name>.weight` and, if the folder has it, `<name>.bias`.
Name layer_norm(GraphBuild& build, const std::string& name, const Name& x, std::int64_t columns, double epsilon);
// x / sqrt(mean(x^2) + epsilon) * `<name>.weight`
Name rms_norm(GraphBuild& build, const std::string& name, const Name& x, std::int64_t columns, double epsilon);
Name silu(Graph& graph, const Name& x);       // x sigmoid(x)
Name gelu(Graph& graph, const Name& x);       // x/2 (1 + erf(x / sqrt 2))
Name gelu_tanh(Graph& graph, const Name& x);  // x/2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
Name tanh(Graph& graph, const Name& x);

// The sum or mean over an axis. mean() and `keep` keep the axis with size 1.
Name sum(Graph& graph, const Name& x, std::int64_t axis, bool keep);
Name mean(Graph& graph, const Name& x, std::int64_t axis);

}  // namespace comera::exporting
