// `comera export`: a model folder as an ONNX file or folder, checked before it is left behind.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lib/core/file.h"
#include "lib/export/settings.h"
#include "lib/io/tt_format.h"
#include "lib/train/step.h"
#include "models/architecture.h"

namespace comera::exporting {

struct ExportOptions {
  GraphForm form = GraphForm::tt;
  WeightType dtype = WeightType::f32;
  int opset = default_opset;
  bool with_past = false;  // decoders: keys and values of earlier tokens go in and out
};

struct Exported {
  std::uint64_t bytes = 0, bytes_source = 0, nodes = 0;
  std::vector<std::string> files = {};     // relative to where they went
  std::vector<std::string> left_out = {};  // files of the source that hold weights in other formats
  std::optional<Difference> difference = {};
};

// The place of the graph. "<..>.onnx" is a file; anything else is a folder with model.onnx, config.json and the
// tokenizer's files.
struct Target {
  std::string path;
  bool force = false;  // replace what is there
  bool is_file() const { return path.ends_with(".onnx"); }
};
// InputError: something is there, or (with force) a folder that is no model's, or that a run is writing to.
void check_target(const Target& target);
// A folder takes its place: what is there goes away where the target is forced.
void finish(AtomicFolder& made, const Target& target);

// The bytes and nodes of the graph, without writing it. InputError: weights that do not fit the configuration.
Exported plan_onnx(const io::ModelFolder& folder, const models::ModelSpec& spec, const ExportOptions& options);

// Bytes of all files of the graph that export_onnx() would write, were these weights of the folder chains; only headers
// are read.
std::uint64_t planned_onnx_bytes(const io::ModelFolder& folder, const models::ModelSpec& spec,
                                 const ExportOptions& options, const std::vector<io::ChainSpec>& chains);

// Runs the dense folder that an export made of `source` beside `engine`, which has the weights of the source. RunError:
// they differ by more than rounding; the message names `output`.
Difference check_dense_folder(const std::string& dense, const std::string& output, const io::ModelFolder& source,
                              const models::ModelSpec& spec, train::Engine& engine);

// Writes the graph, reads it back, runs it beside `engine` (which has the same folder's weights) and keeps it when they
// agree. RunError: they do not; nothing is left behind then.
Exported export_onnx(const io::ModelFolder& folder, const models::ModelSpec& spec, const ExportOptions& options,
                     const Target& target, train::Engine& engine);

}  // namespace comera::exporting
