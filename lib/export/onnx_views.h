// Constants of a graph and the names under which its nodes read them: exporters put Identity, Transpose and Cast between a weight and its reader.
#pragma once

#include <onnx.pb.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>

namespace comera::exporting {

struct OnnxView {
  std::string initialiser;
  bool turned = false;    // read as its transpose
  std::int32_t type = 0;  // that it is read as
};

// Matrices in Constant nodes become initialisers of the same names.
void hoist_constants(onnx::GraphProto& graph);
// By the names that nodes read; every initialiser is a view of itself.
std::map<std::string, OnnxView> views_of(const onnx::GraphProto& graph);
// Whether the node does nothing but make a view.
bool makes_view(const onnx::NodeProto& node, const std::map<std::string, OnnxView>& views);
// Names that nodes inside of If, Loop and the like read.
std::set<std::string> names_in_subgraphs(const onnx::GraphProto& graph);

bool is_standard(const onnx::NodeProto& node);  // of the operators that ONNX defines
std::int64_t integer_of(const onnx::NodeProto& node, const char* attribute, std::int64_t otherwise);

}  // namespace comera::exporting
