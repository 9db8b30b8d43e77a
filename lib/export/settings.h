// Settings of an export, and the result of its check.
#pragma once

#include <cstdint>

namespace comera::exporting {

// Opsets that graphs can be written for. LayerNormalization is an operator since 17.
inline constexpr int oldest_opset = 13, newest_opset = 21, default_opset = 17;
// Opsets of graphs that can be read, from the oldest that ONNX Runtime runs to that of ONNX 1.23. Nodes added to a
// graph use only operators of its opset.
inline constexpr int oldest_read_opset = 7, newest_read_opset = 28;

enum class WeightType : std::uint8_t { f32, f16 };
const char* name_of(WeightType type);  // "fp32", "fp16"

// The form of chains in a graph. tt: core by core, merged by nodes that depend on no input, so that a runtime merges
// them once when it loads the file. factors: left and right factor at the middle bond. dense: multiplied out.
enum class GraphForm : std::uint8_t { tt, factors, dense };
const char* name_of(GraphForm form);

// The form of weights on grids in a graph. dense: as numbers of the weight type. qdq: DequantizeLinear of blocks, of
// opset 21. nbits: MatMulNBits of ONNX Runtime.
enum class GridForm : std::uint8_t { dense, qdq, nbits };

// The difference between the outputs of a model and of its graph.
struct Difference {
  double largest = 0;       // |model - graph|, the graph in double
  double single_error = 0;  // |graph in float - graph in double|, the worst of several runs
  double bound = 0;         // of `largest`
  double magnitude = 0;     // largest |graph|
  std::int64_t values = 0;  // number of compared values
  bool fine() const { return largest <= bound; }
};

}  // namespace comera::exporting
