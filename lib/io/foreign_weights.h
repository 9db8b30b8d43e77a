// Files of a model folder that hold weights in formats that are not read, told by their names.
#pragma once

#include <string>

namespace comera::io {

bool is_pickled(const std::string& name);
bool is_foreign_weights(const std::string& name);  // pickled ones included

}  // namespace comera::io
