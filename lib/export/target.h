// The place that an export writes to, and what it may replace there.
#pragma once

#include <string>

#include "lib/core/files/file.h"

namespace comera::exporting {

// "<..>.onnx" and "<..>.gguf" are files. Any other path is a folder, with the model, config.json and the tokenizer's
// files.
struct Target {
  std::string path;
  bool force = false;  // replace an existing target
  bool is_onnx() const { return path.ends_with(".onnx"); }
  bool is_gguf() const { return path.ends_with(".gguf"); }
  bool is_file() const { return is_onnx() || is_gguf(); }
};

// InputError if the target exists. With force, only if a run is writing to it, or if it is a folder that holds no model
// or a file that is neither weights nor a file of the model folder `source`.
void check_target(const Target& target, const std::string& source = "");
// Moves a finished folder to its target. With force, an existing target is removed. InputError if that would remove a
// file that is neither weights nor in the finished folder.
void finish(AtomicFolder& made, const Target& target);

}  // namespace comera::exporting
