// Small graphs like those of other exporters, and folders with the chains that replace their weights.
#pragma once

#include <catch2/catch.hpp>
#include <set>

#include "lib/export/rewrite/onnx_weights.h"
#include "tests/core/temporary_folder.h"
#include "tests/export/chains_in_graphs.h"

namespace comera::exporting {

using onnx::TensorProto;

inline TensorProto& add_matrix(onnx::GraphProto& graph, const std::string& name, std::int64_t rows,
                               std::int64_t columns, const std::vector<float>& values) {
  TensorProto& tensor = *graph.add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(TensorProto::FLOAT);
  tensor.add_dims(rows);
  tensor.add_dims(columns);
  tensor.mutable_raw_data()->assign(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  return tensor;
}

inline onnx::NodeProto& add_node(onnx::GraphProto& graph, const char* op, const std::vector<std::string>& inputs,
                                 const std::string& output) {
  onnx::NodeProto& node = *graph.add_node();
  node.set_op_type(op);
  node.set_name(output);
  for (const std::string& input : inputs) node.add_input(input);
  node.add_output(output);
  return node;
}

inline void check_all_read(const onnx::GraphProto& graph) {
  std::set<std::string> read;
  for (const onnx::NodeProto& node : graph.node()) read.insert(node.input().begin(), node.input().end());
  for (const TensorProto& tensor : graph.initializer())
    CHECK((read.contains(tensor.name()) ? "" : tensor.name()) == "");
}

inline onnx::ModelProto empty_model() {
  onnx::ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(17);
  return model;
}

// Writes a folder that holds only these chains, in the order of the block.
inline void write_folder(const std::string& folder, const io::ComeraBlock& block,
                         const std::vector<const StoredChain*>& chains) {
  std::vector<io::TensorToWrite> tensors;
  for (std::size_t i = 0; i < chains.size(); ++i)
    for (std::size_t k = 0; k < chains[i]->numbers.cores.size(); ++k)
      tensors.push_back({block.chains[i].core_name(k), io::StoredType::F32, block.chains[i].layout.core_shape(k),
                         chains[i]->numbers.cores[k].data()});
  make_folders(folder);
  io::write_safetensors(join_path(folder, "model.safetensors"), tensors, io::weights_metadata());
  io::Json config;
  config["comera"] = io::to_json(block);
  write_file_atomic(join_path(folder, "config.json"), io::json_text(config));
}

inline void set_numbers(onnx::ModelProto& model, const std::string& name, const Matrix& matrix) {
  for (TensorProto& tensor : *model.mutable_graph()->mutable_initializer())
    if (tensor.name() == name)
      tensor.mutable_raw_data()->assign(reinterpret_cast<const char*>(matrix.values.data()),
                                        matrix.values.size() * sizeof(float));
}

inline void check_same(const Array& y, const Array& expected) {
  REQUIRE(y.dims == expected.dims);
  for (std::size_t i = 0; i < y.reals.size(); ++i)
    CHECK(y.reals[i] == Approx(expected.reals[i]).epsilon(1e-5).margin(1e-5));
}

// Two factors of rank 2, or of rank 4, which are multiplied out because of their size.
inline StoredChain first_chain(bool multiplied, std::int64_t in, std::int64_t out) {
  return random_linear({in}, {out}, {1, multiplied ? 4 : 2, 1}, 10);
}

inline void write_first(const std::string& folder, const StoredChain& chain) {
  io::ComeraBlock block;
  block.chains.push_back(spec_of(chain, "first"));
  write_folder(folder, block, {&chain});
}

}  // namespace comera::exporting
