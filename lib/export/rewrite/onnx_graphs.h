// Functions for the nodes of a graph and of its subgraphs (If, Loop, Scan).
#pragma once

#include <onnx.pb.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace comera::exporting {

bool is_standard(const onnx::NodeProto& node);  // of the operators that ONNX defines
const onnx::AttributeProto* attribute_of(const onnx::NodeProto& node, const char* name);
std::int64_t integer_of(const onnx::NodeProto& node, const char* attribute, std::int64_t otherwise);
void set_integer(onnx::NodeProto& node, const char* attribute, std::int64_t value);

// In the order of the attributes. Nodes and graphs are numbered by a walk that visits a node, then the subgraphs of the
// node, then the next node. The main graph is graph 0.
std::vector<const onnx::GraphProto*> subgraphs(const onnx::NodeProto& node);
std::vector<onnx::GraphProto*> subgraphs(onnx::NodeProto& node);

// The names of all values of all graphs of the model.
std::set<std::string> names_in(const onnx::GraphProto& graph);

// The version of the standard operators; 0 if the model names none.
std::int64_t opset_of(const onnx::ModelProto& model);

}  // namespace comera::exporting
