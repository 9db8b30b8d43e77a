// The settings of an export and its description of itself.
#pragma once

#include <cstdint>

namespace comera::exporting {

// Versions of the standard operators that graphs may be written for. From 17 on LayerNormalization is an operator.
inline constexpr int oldest_opset = 13, newest_opset = 21, default_opset = 17;
// Those whose graphs are read, from the oldest that ONNX Runtime runs to that of ONNX 1.23. What is put into a graph is
// written with operators that its opset has.
inline constexpr int oldest_read_opset = 7, newest_read_opset = 28;

enum class WeightType : std::uint8_t { f32, f16 };
const char* name_of(WeightType type);  // "fp32", "fp16"

// How chains stand in a graph. tt: core by core, merged by nodes that depend on no input, so that a runtime does it
// once when it loads the file; factors: as the two halves of a cut at the middle bond; dense: multiplied out.
enum class GraphForm : std::uint8_t { tt, factors, dense };
const char* name_of(GraphForm form);

// Between a model and its graph.
struct Difference {
  double largest = 0;       // |model - graph|, the graph in double
  double single_error = 0;  // |graph in float - graph in double|
  double bound = 0;         // of `largest`
  double magnitude = 0;     // largest |graph|
  std::int64_t values = 0;  // that were compared
  bool fine() const { return largest <= bound; }
};

}  // namespace comera::exporting
