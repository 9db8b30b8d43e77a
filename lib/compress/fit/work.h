// The work folder beside the output. It stores one file per finished layer and size. A run with the same key continues
// from it; any other run starts fresh. Only one process at a time may use it. A folder of that name that is not a work
// folder is an error.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/compress/fit/layer.h"
#include "lib/core/files/folder_lock.h"

namespace comera::compress {

class WorkFolder {
 public:
  // `key` represents all settings that determine the result. Data of another key is removed.
  WorkFolder(const std::string& output, const std::string& key);

  // The stored result of layer number `layer` at size number `size`.
  std::optional<LayerOutcome> finished(std::size_t size, std::size_t layer) const;
  std::string layer_path(std::size_t size, std::size_t layer) const;
  void save(std::size_t size, std::size_t layer, const LayerOutcome& outcome,
            const std::vector<io::TensorToWrite>& tensors);

  void remove();

 private:
  WorkPlace place_;
};

// Name, size, time and header of every weights file. Detects if the model changed since the run started.
std::string fingerprint(const io::ModelFolder& folder);

}  // namespace comera::compress
