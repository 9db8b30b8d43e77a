// A model's file under the parameter names of the model, for loading.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "lib/engine/weights_file.h"
#include "lib/io/model_folder.h"
#include "lib/io/tt_format.h"

namespace comera::engine {

class FileSource {
 public:
  using Entry = io::ModelFolder::Entry;

  // Keeps `options`.
  FileSource(const std::string& path, const LoadOptions& options);

  const io::ModelFolder& folder() const { return folder_; }
  // Checks chains by the same rules as every reader (describe.cpp). A single file has no config.json that describes
  // them.
  void check_chains() const;
  std::string file_name(const std::string& name) const;
  // The entry of that name or of the first existing alias, or the numbers on a grid of a weight of that name; null if
  // there is none. InputError if two names exist and differ.
  const Entry* find(const std::string& name, const std::vector<std::string>& aliases = {}) const;
  const Entry& require(const std::string& name, const std::vector<std::string>& aliases = {}) const;
  // The description of a weight whose numbers on a grid are this entry; null for other entries.
  const io::ChainSpec* on_grid(const Entry& entry) const;
  std::vector<std::int32_t> indices(const std::string& name, std::int64_t count, std::int64_t limit) const;
  std::vector<std::int32_t> rising(const std::string& name, std::int64_t count, std::int64_t limit) const;
  // Marks the file's tensors for this parameter as used, because they are skipped on purpose.
  void replace(const Parameter& parameter) const;
  std::vector<std::string> unused() const;  // tensors that were not read

 private:
  const Entry* stored(const std::string& name) const;

  io::ModelFolder folder_;
  const LoadOptions& options_;
  std::map<std::string, io::ChainSpec> on_grids_;      // by the name of the weight
  std::map<std::string, std::string> weight_of_base_;  // names
  mutable std::set<const Entry*> used_;
};

}  // namespace comera::engine
