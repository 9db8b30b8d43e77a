// Output errors of the layers of a compressed model on calibration text, for certificates.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "lib/compress/fit/layer.h"

namespace comera::compress {

// The layers of a compressed model that were fitted to their inputs, by name.
struct CompressedLayers {
  std::function<bool(const std::string& name)> has;
  std::function<Candidate(const std::string& name)> candidate;
  std::function<tt::Matrix(const std::string&name)> dense, fitted;  // weights as read_weight() gives them
  // Lets the model of `moments` compute with the fitted weight.
  std::function<void(const std::string& name, const tt::Matrix& fitted)> follow;
};

// The errors of outputs on judging text of each layer that the text reaches. `sequential`: the inputs of a layer come
// from the compressed blocks before it.
std::map<std::string, tt::OutputErrors> output_errors(InputMoments& moments, bool sequential,
                                                      const CompressedLayers& layers);

}  // namespace comera::compress
