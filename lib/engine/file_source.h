// A model's file under the parameter names of the model, for loading.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
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
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;

  const io::ModelFolder& folder() const { return folder_; }
  // Checks chains by the same rules as every reader (describe.cpp). A single file has no config.json that describes
  // them.
  void check_chains() const;
  std::string file_name(const std::string& name) const;
  // The entry of that name or of the first existing alias, or the numbers on a grid of a weight of that name; null if
  // there is none. InputError if two names exist and differ.
  const Entry* find(const std::string& name, const std::vector<std::string>& aliases = {}) const;
  const Entry& require(const std::string& name, const std::vector<std::string>& aliases = {}) const;
  // Codes in the file are the whole weight of a chain, or one of its cores.
  struct Codes {
    const io::ChainSpec* chain;
    std::optional<std::size_t> core = {};

    io::FileShape shape() const { return core ? chain->layout.core_shape(*core) : chain->shape; }
  };
  std::optional<Codes> codes(const Entry& entry) const;  // nothing for other entries
  std::vector<std::int32_t> indices(const std::string& name, std::int64_t count, std::int64_t limit) const;
  std::vector<std::int32_t> rising(const std::string& name, std::int64_t count, std::int64_t limit) const;
  // Marks the file's tensors for this parameter as used, because they are skipped on purpose.
  void replace(const Parameter& parameter) const;
  void pass(const std::string& name) const;  // the same for one tensor, which may be missing
  std::vector<std::string> unused() const;   // tensors that were not read

 private:
  const Entry* stored(const std::string& name) const;

  io::ModelFolder folder_;
  const LoadOptions& options_;
  io::ComeraBlock block_;
  std::map<std::string, const io::ChainSpec*> on_grids_;  // by the name of the weight
  std::map<std::string, Codes> codes_;                    // by the name of the entry
  mutable std::set<const Entry*> used_;
};

}  // namespace comera::engine
