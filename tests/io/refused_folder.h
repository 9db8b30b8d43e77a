// Returns the error message for a model folder.
#pragma once

#include <string>

#include "lib/core/error.h"
#include "lib/io/model_folder.h"

namespace comera::io {

inline std::string message(const std::string& path) {
  try {
    const ModelFolder folder(path);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace comera::io
