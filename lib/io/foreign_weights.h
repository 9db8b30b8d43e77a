// Recognises by name the files of a model folder that contain weights in unsupported formats.
#pragma once

#include <string>

namespace comera::io {

bool is_pickled(const std::string& name);
bool is_foreign_weights(const std::string& name);  // includes pickled ones

}  // namespace comera::io
