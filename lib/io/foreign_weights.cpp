#include "lib/io/foreign_weights.h"

#include <algorithm>

#include "lib/core/glob.h"

namespace comera::io {
namespace {

bool matches_any(const std::string& name, std::initializer_list<const char*> patterns) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const char* pattern) { return glob_match(pattern, name); });
}

}  // namespace

bool is_pickled(const std::string& name) {
  return matches_any(name, {"*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl", "*.pickle"});
}

bool is_foreign_weights(const std::string& name) {
  return is_pickled(name) || matches_any(name, {"*.onnx", "*.onnx_data", "*.onnx.data", "*.h5", "*.msgpack", "*.gguf",
                                                "*.tflite", "*.ot", "*.npz", "*.mlmodel", "*.bin.index.json"});
}

}  // namespace comera::io
