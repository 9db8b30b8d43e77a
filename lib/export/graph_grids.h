// Writes weights on grids as nodes that keep their numbers small in the file.
#pragma once

#include "lib/export/graph_layers.h"

namespace comera::exporting {

// The chain of a weight that the graph keeps on its grid; null if it becomes dense.
const io::ChainSpec* grid_in_graph(const GraphBuild& build, const std::string& name);

// x W, without a bias: DequantizeLinear of blocks and a product, or MatMulNBits. A correction is a product of two
// factors beside it. 2 and 3 bits are stored in 4, with the same numbers.
Name times_grid(GraphBuild& build, const io::ChainSpec& spec, const Name& x);
// Rows of a table by ids: the codes of these rows are unpacked. Exact rows take their place.
Name lookup_grid(GraphBuild& build, const io::ChainSpec& spec, const Name& ids);
// x tableᵀ.
Name times_table_grid(GraphBuild& build, const io::ChainSpec& spec, const Name& x);

}  // namespace comera::exporting
