// Runs an ONNX graph: the operators that this room writes, one after the other, slowly and plainly. It is what an
// exported file is checked with, so it shares no code with the model's own forward.
#pragma once

#include <onnx.pb.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lib/io/onnx.h"

namespace comera::exporting {

// A value of a graph: reals or integers (truth values are 0 and 1).
struct Array {
  std::vector<std::int64_t> dims = {};
  bool is_real = true;
  std::vector<double> reals = {};
  std::vector<std::int64_t> integers = {};
};
using Arrays = std::map<std::string, Array>;

enum class Precision : std::uint8_t { single, doubled };

// The outputs of the graph for these inputs, computed in float or in double. Weights are read as they are stored.
// InputError: an operator or attribute that is not known here, an input that is missing, shapes that do not fit.
Arrays evaluate(const onnx::ModelProto& model, const Arrays& inputs, Precision precision);
Arrays evaluate(io::OnnxFile& file, const Arrays& inputs,
                Precision precision);  // with weights that lie in a second file

}  // namespace comera::exporting
