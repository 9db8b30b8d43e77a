// Constants of a model and the nodes that read them, in the main graph and in the graphs inside of its nodes.
#pragma once

#include <onnx.pb.h>

#include <cstdint>
#include <string>
#include <vector>

namespace comera::exporting {

// A MatMul, Gemm or Gather that reads a matrix M.
struct OnnxReader {
  enum class How : std::uint8_t { right, left, rows, columns };  // x M, M x; a Gather of its rows, of its columns
  int node = 0;                                                  // see lib/export/onnx_graphs.h
  How how = How::right;
  bool turned = false;    // M is the transpose of what is stored
  std::int32_t type = 0;  // that it computes in

  bool looks_up() const { return how == How::rows || how == How::columns; }
  // True if columns of the stored matrix are looked up.
  bool looks_up_columns() const { return looks_up() && (how == How::columns) != turned; }
};

// An initialiser, or what a Constant node makes.
struct OnnxConstant {
  std::string name;  // in its graph; others may have a constant of that name too
  const onnx::TensorProto* tensor = nullptr;
  int graph = 0, node = -1;     // that it belongs to; the Constant node that makes it
  std::vector<int> views = {};  // nodes that hand it on as it is, as its transpose or in another floating type
  std::vector<OnnxReader> readers = {};
  std::string obstacle = {};  // the first reason to leave it as it is
  std::string other = {};     // says of the first node that reads the matrix itself, for which no factors do

  bool is_used() const { return !readers.empty() || !obstacle.empty() || !other.empty(); }
};

// In the order of the walk of lib/export/onnx_graphs.h, those of a graph before those of graphs inside. A name is
// looked for in the graph of the node that reads it and then in those around it, so an inner one hides an outer one.
std::vector<OnnxConstant> constants_of(const onnx::ModelProto& model);

// True for formats before 4, in which initialisers must be inputs too; runtimes treat them as constants all the same.
bool lists_initialisers(const onnx::ModelProto& model);

}  // namespace comera::exporting
