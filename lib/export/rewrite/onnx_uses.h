// Finds the constants of a model and the nodes that read them, in the main graph and in its subgraphs.
#pragma once

#include <onnx.pb.h>

#include <cstdint>
#include <string>
#include <vector>

namespace comera::exporting {

// A MatMul, Gemm or Gather that reads a matrix M.
struct OnnxReader {
  // x M, M x, Gather of rows of M, Gather of columns of M
  enum class How : std::uint8_t { right, left, rows, columns };
  int node = 0;  // see lib/export/rewrite/onnx_graphs.h
  How how = How::right;
  bool turned = false;    // M is the transpose of the stored matrix
  std::int32_t type = 0;  // type in which it computes

  bool looks_up() const { return how == How::rows || how == How::columns; }
  // True if columns of the stored matrix are looked up.
  bool looks_up_columns() const { return looks_up() && (how == How::columns) != turned; }
};

// An initialiser, or the output of a Constant node.
struct OnnxConstant {
  std::string name;  // name in its graph; other graphs may have a constant of the same name
  const onnx::TensorProto* tensor = nullptr;
  int graph = 0, node = -1;     // number of its graph; number of its Constant node
  std::vector<int> views = {};  // nodes that pass it on as it is, transposed or in another floating-point type
  std::vector<OnnxReader> readers = {};
  std::string obstacle = {};  // the first reason why it must stay as it is
  std::string other = {};     // describes the first node that needs the matrix itself and cannot use factors

  bool is_used() const { return !readers.empty() || !obstacle.empty() || !other.empty(); }
};

// In the order of the walk of lib/export/rewrite/onnx_graphs.h; constants of a graph come before those of its
// subgraphs. A name is searched in the graph of the node that reads it and then in the enclosing graphs, so an inner
// name hides an outer one.
std::vector<OnnxConstant> constants_of(const onnx::ModelProto& model);

// True for formats before 4, in which initialisers must also be inputs. Runtimes still treat them as constants.
bool lists_initialisers(const onnx::ModelProto& model);

}  // namespace comera::exporting
