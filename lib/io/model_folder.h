// Hugging Face model folders: config.json, model.safetensors or its shards with an index, and side files. A GGUF file
// of llama.cpp is read as the folder that `export --to safetensors` would make of it.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/io/json.h"
#include "lib/io/safetensors.h"

namespace comera::io {

// An open model. Weights are read only on request.
class ModelFolder {
 public:
  // Opens a folder, a GGUF file, or a single .safetensors file (which has no config). InputError if there is nothing at
  // `path`, if all weights are pickled or in a foreign format, or if the index names missing tensors or files.
  // `adapter`: a PEFT LoRA folder that is merged into the dense weights while they are read (adapter/lora.h); "": none.
  explicit ModelFolder(std::string path, const std::string& adapter = "");
  ModelFolder(ModelFolder&&) noexcept;
  ModelFolder& operator=(ModelFolder&&) noexcept;
  ~ModelFolder();

  const std::string& path() const { return path_; }
  // The sub-folder of the transformer, or "" if it is path() itself (modules.h).
  const std::string& place() const { return place_; }
  // The folder for config.json and weights in `root`, in the layout of this folder.
  std::string place_in(const std::string& root) const { return place_.empty() ? root : join_path(root, place_); }
  const std::string& adapter() const { return adapter_; }
  bool is_gguf() const { return gguf_; }
  bool is_weights_alone() const { return alone_; }  // a .safetensors file was given, not the folder around it
  bool has_config() const;
  const Json& config() const;  // an empty object if there is no config.json
  // For messages; the path of a GGUF file is its own.
  std::string config_path() const { return gguf_ ? path_ : join_path(place_in(path_), "config.json"); }
  const Metadata& metadata() const { return files_.front()->metadata(); }

  struct Entry {
    StoredTensor tensor;
    int file = 0;  // index into files()
  };
  const std::vector<Entry>& entries() const { return entries_; }  // by name; numbers in names sort by value
  const std::vector<std::unique_ptr<const WeightFile>>& files() const { return files_; }
  const Entry* find(std::string_view name) const;  // null if there is none
  const WeightFile& file_of(const Entry& entry) const { return *files_[static_cast<std::size_t>(entry.file)]; }

  // Reads a stored tensor as float. InputError if it is missing, has another shape or is not floating.
  std::vector<float> read_floats(std::string_view name, const FileShape& shape) const;
  void read_floats(std::string_view name, const FileShape& shape, std::span<float> out) const;

  std::uint64_t bytes() const;  // size of all weight files

 private:
  void open_folder();
  void open_file();
  void add_file(std::unique_ptr<const WeightFile> file);  // with all its tensors
  void open_shards(const std::string& index_name);
  void sort_entries();
  void merge(const std::string& adapter);

  std::string path_, place_, adapter_;
  bool gguf_ = false, alone_ = false;
  std::unique_ptr<Json> config_;
  std::vector<std::unique_ptr<const WeightFile>> files_;
  std::vector<Entry> entries_;
};

// InputError unless the model has a config.json. `where` starts the message ("[export]").
void require_config(std::string_view where, const ModelFolder& folder);

// Returns the file of each tensor. Checks that files are plain names and that the map is well formed.
std::vector<std::pair<std::string, std::string>> parse_index(std::string_view text, const std::string& file_name);

// "a.2.b" < "a.10.b".
bool natural_less(std::string_view a, std::string_view b);

// The place of the transformer in a copy: the same as in the original, or the top folder.
enum class CopyLayout { same, on_top };

// Copies the side files of a model folder (tokenizer files, licence, other modules, ...), including sub-folders. Writes
// the tokenizer of a GGUF file, or a warning that it cannot be read.
// `copied` lists the copied files; `left_out` lists files that contain weights in another format.
struct CopiedFiles {
  std::vector<std::string> copied, left_out;  // names relative to the original folder
};
CopiedFiles copy_side_files(const std::string& from, const std::string& to, CopyLayout layout);
// The relative names that such a copy may have, in either layout.
std::vector<std::string> side_file_names(const std::string& from);

}  // namespace comera::io
