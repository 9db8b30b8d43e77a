// `comera export`: writes a model folder as an ONNX file or folder and checks it before it gets its final name.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lib/core/files/file.h"
#include "lib/engine/engine.h"
#include "lib/export/chains.h"
#include "lib/export/settings.h"
#include "lib/export/target.h"
#include "lib/io/tt_format.h"
#include "models/architecture.h"

namespace comera::exporting {

struct ExportOptions {
  GraphForm form = GraphForm::tt;
  WeightType dtype = WeightType::f32;
  int opset = default_opset;
  GridForm grids = GridForm::dense;
  bool with_past = false;  // decoders: inputs and outputs for keys and values of earlier tokens
};

struct Exported {
  std::uint64_t bytes = 0, bytes_source = 0, nodes = 0;
  std::vector<std::string> files = {};     // relative to the target
  std::vector<std::string> left_out = {};  // files of the source that hold weights in other formats
  OtherForms others = {};
  std::optional<Difference> difference = {};
};

// True if the graph is planned from headers alone. Grids and merged factors are made of their numbers.
bool plans_by_shapes(const ExportOptions& options);
// The bytes and nodes of the graph without writing it. InputError: weights that do not fit the configuration.
Exported plan_onnx(const io::ModelFolder& folder, const models::ModelSpec& spec, const ExportOptions& options);

// Bytes of all files of the graph that export_onnx() would write if these weights of the folder were chains. Only
// headers are read.
std::uint64_t planned_onnx_bytes(const io::ModelFolder& folder, const models::ModelSpec& spec,
                                 const ExportOptions& options, const std::vector<io::ChainSpec>& chains);

// Runs the dense folder that was exported from `source` and compares it with `engine`, which has the weights of the
// source. `adapter`: a LoRA folder that is merged into the dense one. RunError if they differ by more than rounding;
// the message names `output`.
Difference check_dense_folder(const std::string& dense, const std::string& output, const io::ModelFolder& source,
                              const models::ModelSpec& spec, engine::Engine& engine, const std::string& adapter = "");

// Writes the graph, reads it back, runs it and `engine` (with the weights of the same folder), and keeps the graph if
// both agree. RunError if they do not agree; then nothing is left on the disk.
Exported export_onnx(const io::ModelFolder& folder, const models::ModelSpec& spec, const ExportOptions& options,
                     const Target& target, engine::Engine& engine);

}  // namespace comera::exporting
