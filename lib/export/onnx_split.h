// Nodes that read two factors where one read a matrix.
#pragma once

#include "lib/export/graph_layers.h"
#include "lib/export/onnx_uses.h"

namespace comera::exporting {

// The factors of the matrix as the node reads it.
struct SplitPair {
  OnnxReader::How how = OnnxReader::How::right;
  LinearConstants halves;
  Name height, any_size;  // for columns: how many rows there are, and the shape [-1]
};

// A table that is looked up by quotient and remainder of the id.
struct SplitTable {
  TableConstants halves;
  bool as_columns = false;    // read as its transpose, and columns of that
  bool from_the_end = false;  // ids below zero count from the end, as they may since opset 11
  Name shape_left, shape_right, shape_rows, width, rows, right_rows;  // constants
};

// In the place of `node`, with operators that every opset has from 7 on. Sizes of 0 among the ids' need opset 14.
void split(onnx::GraphProto& graph, onnx::NodeProto node, const SplitPair& pair, std::int64_t opset);
void split(onnx::GraphProto& graph, const onnx::NodeProto& node, const SplitTable& table, std::int64_t opset);

}  // namespace comera::exporting
