// Hugging Face model folders: config.json, model.safetensors or its shards with an index, and files that go along.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/io/json.h"
#include "lib/io/safetensors.h"

namespace comera::io {

// An open model; no weights are read until they are asked for.
class ModelFolder {
 public:
  // A folder, or one .safetensors file (then there is no config). InputError: nothing there, weights in a pickled or
  // foreign format only, an index that names tensors or files that are not there.
  explicit ModelFolder(std::string path);
  ModelFolder(ModelFolder&&) noexcept;
  ModelFolder& operator=(ModelFolder&&) noexcept;
  ~ModelFolder();

  const std::string& path() const { return path_; }
  // The sub-folder of the transformer; "" if it is path() itself (modules.h).
  const std::string& place() const { return place_; }
  // In `root`, laid out as this folder is: where config.json and weights go.
  std::string place_in(const std::string& root) const { return place_.empty() ? root : join_path(root, place_); }
  bool has_config() const;
  const Json& config() const;  // an empty object where there is no config.json
  std::string config_path() const { return join_path(place_in(path_), "config.json"); }
  const Metadata& metadata() const { return files_.front().metadata(); }

  struct Entry {
    StoredTensor tensor;
    int file = 0;  // index into files()
  };
  const std::vector<Entry>& entries() const { return entries_; }  // by name, numbers in names by value
  const std::vector<SafetensorsFile>& files() const { return files_; }
  const Entry* find(std::string_view name) const;  // null where there is none
  const SafetensorsFile& file_of(const Entry& entry) const { return files_[static_cast<std::size_t>(entry.file)]; }

  // As stored, converted to float. InputError: missing, of another shape, or not floating.
  std::vector<float> read_floats(std::string_view name, const FileShape& shape) const;
  void read_floats(std::string_view name, const FileShape& shape, std::span<float> out) const;

  std::uint64_t bytes() const;  // of all weight files

 private:
  void open_single(const std::string& name);
  void open_shards(const std::string& index_name);
  void sort_entries();

  std::string path_, place_;
  std::unique_ptr<Json> config_;
  std::vector<SafetensorsFile> files_;
  std::vector<Entry> entries_;
};

// Reads the file of each tensor. Checks that files are plain names and that the map is well formed.
std::vector<std::pair<std::string, std::string>> parse_index(std::string_view text, const std::string& file_name);

// "a.2.b" < "a.10.b".
bool natural_less(std::string_view a, std::string_view b);

// The place of the transformer in a copy: the same as in the original, or the folder itself.
enum class CopyLayout { same, on_top };

// What a model folder carries besides configuration and weights: tokenizer files, licence, other modules, ... Copies
// them, sub-folders included, and answers what was copied and which files were left out because they hold weights in
// another format.
struct CopiedFiles {
  std::vector<std::string> copied, left_out;  // relative names in the original
};
CopiedFiles copy_side_files(const std::string& from, const std::string& to, CopyLayout layout);

}  // namespace comera::io
