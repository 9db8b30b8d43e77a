// Builds an ONNX graph: inputs, constants, nodes and outputs. Their names contain the layer to which they belong.
#pragma once

#include <onnx.pb.h>

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lib/export/settings.h"

namespace comera::exporting {

// A known size, or the name of an unknown one ("batch_size").
using Dim = std::variant<std::int64_t, std::string>;

struct Attribute {
  std::string name;
  std::variant<std::int64_t, float, std::vector<std::int64_t>, std::string> value;
};

// Values are identified by their names.
using Name = std::string;

class Graph {
 public:
  // InputError: an opset out of range. A prefix means that this is a part of an existing graph: then every readable
  // opset is allowed, and the names of constants that are not weights start with the prefix.
  Graph(int opset, WeightType weights, std::string prefix = "");

  int opset() const { return opset_; }
  WeightType weight_type() const { return weights_; }
  void set_weight_type(WeightType type) { weights_ = type; }  // of later weights
  onnx::ModelProto& model() { return model_; }
  Name input(const std::string& name, onnx::TensorProto::DataType type, const std::vector<Dim>& dims);
  // Makes `value` an output with the name `name`.
  void output(const Name& value, const std::string& name, const std::vector<Dim>& dims);
  void note(const std::string& key, const std::string& value);  // metadata_props

  // A weight: stored in the weight type, used as float. A second call with the same name returns the existing one.
  // Without values it is only declared, to compute sizes (io::planned_onnx_bytes). InputError: an entry exceeds half
  // precision.
  Name weight(const std::string& name, const std::vector<std::int64_t>& dims, std::span<const float> values);
  // Constants that keep their type. Equal constants are stored once.
  Name scalar(float value);
  Name integers(const std::vector<std::int64_t>& values);  // [n] of int64
  Name integer(std::int64_t value);                        // [] of int64
  Name indices(const std::string& name, std::span<const std::int32_t> values);
  Name floats(const std::string& name, std::span<const float> values);  // [n], always in float

  Name byte(std::uint8_t value);  // [] of uint8
  // Whole numbers of a type of few bits, as raw data.
  Name codes(const std::string& name, std::int32_t type, const std::vector<std::int64_t>& dims,
             std::span<const std::byte> bytes);

  // A node with one output. Its name is built from the scope and the operator. `domain`: of an operator that is not
  // ONNX's own; its version is 1.
  Name node(const char* op, const std::vector<Name>& inputs, const std::vector<Attribute>& attributes = {},
            const char* domain = "");
  Name reshape(const Name& x, const std::vector<std::int64_t>& dims) { return node("Reshape", {x, integers(dims)}); }
  Name transpose(const Name& x, const std::vector<std::int64_t>& order) {
    return node("Transpose", {x}, {{"perm", order}});
  }

  // During its lifetime, names of new nodes begin with `name`.
  class Scope {
   public:
    Scope(Graph& graph, const std::string& name);
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope() { graph_.scope_ = outer_; }

   private:
    Graph& graph_;
    std::string outer_;
  };

 private:
  onnx::TensorProto* add_initialiser(const std::string& name, std::int32_t type, const std::vector<std::int64_t>& dims);
  Name integers_of(const std::string& name, const std::vector<std::int64_t>& dims,
                   std::span<const std::int64_t> values);

  int opset_;
  WeightType weights_;
  onnx::ModelProto model_;
  onnx::GraphProto* graph_;
  std::string prefix_, scope_;
  void use_domain(const char* domain);

  std::map<std::string, int> used_;
  std::map<std::string, Name> constants_;
};

}  // namespace comera::exporting
