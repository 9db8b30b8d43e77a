// Replaces nodes that read a matrix by nodes that read two factors.
#pragma once

#include "lib/export/graph_layers.h"
#include "lib/export/rewrite/onnx_uses.h"

namespace comera::exporting {

// The factors of the matrix in the form in which the node reads it.
struct SplitPair {
  OnnxReader::How how = OnnxReader::How::right;
  LinearConstants factors;
  Name height, any_size;  // for columns: the number of rows, and the shape [-1]
};

// A table that is looked up by quotient and remainder of the id.
struct SplitTable {
  TableConstants factors;
  bool as_columns = false;    // the node looks up columns of the transposed table
  bool from_the_end = false;  // ids below zero count from the end, which opset 11 introduced
  Name shape_left, shape_right, shape_rows, width, rows, right_rows;  // constants
};

// Replaces `node`, with operators that every opset since 7 has. Sizes of 0 in the shape of the ids need opset 14.
void split(onnx::GraphProto& graph, onnx::NodeProto node, const SplitPair& pair, std::int64_t opset);
void split(onnx::GraphProto& graph, const onnx::NodeProto& node, const SplitTable& table, std::int64_t opset);

}  // namespace comera::exporting
