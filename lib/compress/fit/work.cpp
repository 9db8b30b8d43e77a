#include "lib/compress/fit/work.h"

#include <filesystem>

#include "lib/core/error.h"
#include "lib/core/files/file.h"
#include "lib/core/hash.h"
#include "lib/core/terminal/log.h"
#include "lib/io/json_file.h"

namespace comera::compress {
namespace {

constexpr const char *outcome_key = "comera_layer", *block_key = "comera_block";

io::Json stored_json(const std::string& path, const char* key) {
  const io::SafetensorsFile file(path);
  const auto found = file.metadata().find(key);
  if (found == file.metadata().end())
    fail_input("{}: is no finished layer of this program; remove the folder and start again", path);
  return io::parse_json(found->second, path);
}

std::string trimmed(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

}  // namespace

std::vector<std::string> work_names() {
  const std::string size = "plan-[0-9]*-", number = "-[0-9][0-9][0-9][0-9][0-9]*.safetensors";
  return {"key", size + "layer" + number, size + "refined" + number, size + "block" + number};
}

WorkFolder::WorkFolder(const std::string& output, const std::string& key)
    : place_(trimmed(output) + ".partial", work_names()) {
  const std::string key_path = join_path(place_.path(), "key");
  if (path_exists(key_path) && read_file(key_path, 1 << 16) == key) {
    log_info("going on where {} was left", place_.path());
    return;
  }
  place_.clear();
  write_file_atomic(key_path, key);
}

std::string WorkFolder::layer_path(std::size_t size, std::size_t layer) const {
  return join_path(place_.path(), fmt::format("plan-{}-layer-{:05}.safetensors", size, layer));
}

std::optional<LayerOutcome> WorkFolder::finished(std::size_t size, std::size_t layer) const {
  const std::string path = layer_path(size, layer);
  if (!path_exists(path)) return std::nullopt;
  return outcome_from(stored_json(path, outcome_key), path);
}

void WorkFolder::save(std::size_t size, std::size_t layer, const LayerOutcome& outcome,
                      const std::vector<io::TensorToWrite>& tensors) {
  io::write_safetensors(layer_path(size, layer), tensors, {{outcome_key, to_json(outcome).dump()}});
}

std::string WorkFolder::refined_path(std::size_t size, std::size_t layer) const {
  return join_path(place_.path(), fmt::format("plan-{}-refined-{:05}.safetensors", size, layer));
}

void WorkFolder::save_refined(std::size_t size, std::size_t layer, const LayerOutcome& outcome,
                              const std::vector<io::TensorToWrite>& tensors) {
  io::write_safetensors(refined_path(size, layer), tensors, {{outcome_key, to_json(outcome).dump()}});
}

LayerOutcome WorkFolder::refined(std::size_t size, std::size_t layer) const {
  const std::string path = refined_path(size, layer);
  return outcome_from(stored_json(path, outcome_key), path);
}

std::string WorkFolder::block_path(std::size_t size, std::size_t block) const {
  return join_path(place_.path(), fmt::format("plan-{}-block-{:05}.safetensors", size, block));
}

void WorkFolder::save_block(std::size_t size, std::size_t block, const io::Json& record,
                            const std::vector<io::TensorToWrite>& vectors) {
  io::write_safetensors(block_path(size, block), vectors, {{block_key, record.dump()}});
}

std::optional<io::Json> WorkFolder::block(std::size_t size, std::size_t block) const {
  const std::string path = block_path(size, block);
  return path_exists(path) ? std::optional(stored_json(path, block_key)) : std::nullopt;
}

void WorkFolder::remove() { place_.remove(); }

std::string fingerprint(const io::ModelFolder& folder) {
  Hasher hasher;
  hasher.update(folder.config().dump());
  for (const auto& file : folder.files()) {
    for (const std::string& path : file->all_paths()) {
      std::error_code error;
      const auto time = std::filesystem::last_write_time(path, error).time_since_epoch().count();
      hasher.update(fmt::format("{} {} {}\n", base_name(path), file_size(path), time));
    }
    for (const io::StoredTensor& tensor : file->tensors())
      hasher.update(fmt::format("{} {} {} {}\n", tensor.name, io::name_of(tensor.type), io::to_string(tensor.shape),
                                tensor.begin));
  }
  return hasher.hex();
}

}  // namespace comera::compress
