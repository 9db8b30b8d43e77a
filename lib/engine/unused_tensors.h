// Tensors of a model's file that have no place in the model.
#pragma once

#include <string>
#include <vector>

#include "lib/engine/weights.h"

namespace comera::engine {

// Returns their names in the order of the file. Reads headers alone. Errors as of load_weights().
std::vector<std::string> unused_tensors(const std::string& path, const Model& model, const std::string& adapter = "");

// Names them in a warning; no names: no warning. A model of which a part is ignored gives other answers, so --quiet
// does not hide it.
void warn_of_unused(const std::string& path, const std::vector<std::string>& names);

}  // namespace comera::engine
