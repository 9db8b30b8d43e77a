// The folder beside the output that holds what a run has finished: its plans and one file per layer. A run that is
// started again the same way goes on from it; any other starts afresh. One process at a time works in it; a folder of
// that name that is none of ours is refused.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/compress/layer.h"
#include "lib/core/folder_lock.h"

namespace comera::compress {

class WorkFolder {
 public:
  // `key` stands for everything that decides the result. What another key left behind is removed.
  WorkFolder(const std::string& output, const std::string& key);

  // Plans of the run that was interrupted; nothing where there is none.
  std::optional<io::Json> plans() const;
  void save_plans(const io::Json& plans);

  // The stored result of layer number `layer` in plan number `plan`.
  std::optional<LayerOutcome> finished(std::size_t plan, std::size_t layer) const;
  std::string layer_path(std::size_t plan, std::size_t layer) const;
  void save(std::size_t plan, std::size_t layer, const LayerOutcome& outcome,
            const std::vector<io::TensorToWrite>& tensors);

  void remove();

 private:
  WorkPlace place_;
};

// Name, size, time and header of every weights file: tells whether a model is still the one that was begun with.
std::string fingerprint(const io::ModelFolder& folder);

}  // namespace comera::compress
