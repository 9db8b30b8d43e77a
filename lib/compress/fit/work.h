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

// The relative names of all files in a work folder, as globs.
std::vector<std::string> work_names();

class WorkFolder {
 public:
  // `key` represents all settings that determine the result. Data of another key is removed.
  WorkFolder(const std::string& output, const std::string& key);

  // The stored result of layer number `layer` at size number `size`.
  std::optional<LayerOutcome> finished(std::size_t size, std::size_t layer) const;
  std::string layer_path(std::size_t size, std::size_t layer) const;
  void save(std::size_t size, std::size_t layer, const LayerOutcome& outcome,
            const std::vector<io::TensorToWrite>& tensors);

  // A layer after the refinement of its block, beside the layer as fitted.
  std::string refined_path(std::size_t size, std::size_t layer) const;
  void save_refined(std::size_t size, std::size_t layer, const LayerOutcome& outcome,
                    const std::vector<io::TensorToWrite>& tensors);
  LayerOutcome refined(std::size_t size, std::size_t layer) const;
  // The vectors of a refined block, stored last; `record` describes the refinement. Empty: the block is not refined
  // yet.
  std::string block_path(std::size_t size, std::size_t block) const;
  void save_block(std::size_t size, std::size_t block, const io::Json& record,
                  const std::vector<io::TensorToWrite>& vectors);
  std::optional<io::Json> block(std::size_t size, std::size_t block) const;

  void remove();

 private:
  WorkPlace place_;
};

// Name, size, time and header of every weights file. Detects if the model changed since the run started.
std::string fingerprint(const io::ModelFolder& folder);

}  // namespace comera::compress
