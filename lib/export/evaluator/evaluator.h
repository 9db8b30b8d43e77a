// Runs an ONNX graph with simple, slow versions of the operators that this room writes. Exported files are checked with
// it, so it shares no code with the model's own forward.
#pragma once

#include <onnx.pb.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lib/io/onnx.h"

namespace comera::exporting {

// A value of a graph: reals or integers. Truth values are 0 and 1.
struct Array {
  std::vector<std::int64_t> dims = {};
  bool is_real = true;
  std::vector<double> reals = {};
  std::vector<std::int64_t> integers = {};
};
using Arrays = std::map<std::string, Array>;

enum class Precision : std::uint8_t { single, doubled };

// The outputs of the graph for these inputs, computed in float or in double. Weights are read as stored. `noise`: 0, or
// the seed of a float run in which every result of an arithmetic node is multiplied by 1 + 2^-23 or 1 - 2^-23 at random
// (Monte Carlo arithmetic, Parker 1997). InputError: an unknown operator or attribute, a missing input, shapes that do
// not fit.
Arrays evaluate(const onnx::ModelProto& model, const Arrays& inputs, Precision precision, std::uint64_t noise = 0);
// With weights in a second file.
Arrays evaluate(io::OnnxFile& file, const Arrays& inputs, Precision precision, std::uint64_t noise = 0);

}  // namespace comera::exporting
