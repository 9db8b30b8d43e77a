#include "lib/io/model_folder.h"

#include <algorithm>
#include <map>

#include "lib/core/error.h"
#include "lib/core/hub_hint.h"
#include "lib/core/terminal/log.h"
#include "lib/io/adapter/lora.h"
#include "lib/io/file_kind.h"
#include "lib/io/foreign_weights.h"
#include "lib/io/gguf/gguf_model.h"
#include "lib/io/json_file.h"
#include "lib/io/modules.h"

namespace comera::io {
namespace {

constexpr std::uint64_t largest_index = 64 << 20;
constexpr const char* single_name = "model.safetensors";
constexpr const char* index_name = "model.safetensors.index.json";

[[noreturn]] void fail_no_weights(const std::string& folder) {
  for (const std::string& name : list_folder(folder))
    if (is_pickled(name))
      fail_input(
          "{}: pickled weights are not read, because opening them can run any code; convert them once where they came "
          "from, with Python: "
          "transformers.AutoModel.from_pretrained(\"{}\").save_pretrained(\"NEW_FOLDER\", safe_serialization=True)",
          join_path(folder, name), folder);
  for (const std::string& name : list_folder(folder))
    if (is_foreign_weights(name))
      fail_input("{}: weights in this format are not read; give a folder with {}", join_path(folder, name),
                 single_name);
  fail_input("{}: holds neither {} nor {}; give a Hugging Face model folder or a run folder", folder, single_name,
             index_name);
}

Json read_config(const std::string& path) {
  Json config = read_json(path, largest_config);
  if (!config.is_object()) fail_input("{}: is not a JSON object; it must hold the model's configuration", path);
  return config;
}

std::size_t digits_at(std::string_view text, std::size_t at) {
  return std::min(text.find_first_not_of("0123456789", at), text.size()) - at;
}

}  // namespace

ModelFolder::ModelFolder(ModelFolder&&) noexcept = default;
ModelFolder& ModelFolder::operator=(ModelFolder&&) noexcept = default;
ModelFolder::~ModelFolder() = default;

ModelFolder::ModelFolder(std::string path, const std::string& adapter)
    : path_(std::move(path)), adapter_(adapter), config_(std::make_unique<Json>(Json::object())) {
  if (!path_exists(path_)) fail_input("{}: no such file or folder; check the path{}", path_, hub_hint(path_));
  is_folder(path_) ? open_folder() : open_file();
  sort_entries();
  if (!adapter.empty()) merge(adapter);
}

void ModelFolder::open_folder() {
  place_ = transformer_place(path_);
  const std::string place = place_in(path_);
  if (path_exists(config_path())) *config_ = read_config(config_path());
  if (path_exists(join_path(place, single_name))) {
    add_file(std::make_unique<SafetensorsFile>(join_path(place, single_name)));
  } else if (path_exists(join_path(place, index_name))) {
    open_shards(index_name);
  } else {
    fail_no_weights(place);
  }
}

bool ModelFolder::has_config() const { return !config_->empty(); }
const Json& ModelFolder::config() const { return *config_; }

void ModelFolder::open_file() {
  gguf_ = is_gguf_file(path_);
  if (gguf_) {
    auto file = std::make_shared<const GgufFile>(path_);
    *config_ = gguf_config(*file);
    add_file(std::make_unique<GgufWeights>(std::move(file)));
  } else {
    add_file(std::make_unique<SafetensorsFile>(path_));
    path_ = parent_path(path_);
    alone_ = true;
  }
}

void ModelFolder::merge(const std::string& adapter) {
  const auto lora = std::make_shared<const LoraAdapter>(adapter, *this);
  for (auto& file : files_) file = std::make_unique<AdaptedWeights>(std::move(file), lora);
}

void ModelFolder::add_file(std::unique_ptr<const WeightFile> file) {
  for (const StoredTensor& tensor : file->tensors()) entries_.push_back({tensor, static_cast<int>(files_.size())});
  files_.push_back(std::move(file));
}

void ModelFolder::open_shards(const std::string& name) {
  const std::string index_path = join_path(place_in(path_), name);
  std::map<std::string, int> numbers;
  std::vector<const SafetensorsFile*> shards;
  for (const auto& [tensor_name, file_name] : parse_index(read_file(index_path, largest_index), index_path)) {
    const auto [found, fresh] = numbers.emplace(file_name, static_cast<int>(files_.size()));
    if (fresh) {
      auto shard = std::make_unique<SafetensorsFile>(join_path(place_in(path_), file_name));
      shards.push_back(shard.get());
      files_.push_back(std::move(shard));
    }
    const StoredTensor* tensor = shards[static_cast<std::size_t>(found->second)]->find(tensor_name);
    if (!tensor)
      fail_input("{}: tensor {} is not in {}, where the index looks for it; fetch the folder again", index_path,
                 printable(tensor_name), file_name);
    entries_.push_back({*tensor, found->second});
  }
  if (files_.empty()) fail_input("{}: names no tensor; fetch the folder again", index_path);
}

void ModelFolder::sort_entries() {
  std::sort(entries_.begin(), entries_.end(),
            [](const Entry& a, const Entry& b) { return natural_less(a.tensor.name, b.tensor.name); });
}

const ModelFolder::Entry* ModelFolder::find(std::string_view name) const {
  const auto found = std::lower_bound(
      entries_.begin(), entries_.end(), name,
      [](const Entry& entry, std::string_view wanted) { return natural_less(entry.tensor.name, wanted); });
  return found != entries_.end() && found->tensor.name == name ? &*found : nullptr;
}

void ModelFolder::read_floats(std::string_view name, const FileShape& shape, std::span<float> out) const {
  const Entry* entry = find(name);
  if (!entry) fail_input("{}: has no tensor {}; is it a model of another architecture?", path_, printable(name));
  const WeightFile& file = file_of(*entry);
  if (entry->tensor.shape != shape)
    fail_input("{}: tensor {}: expected {}, found {}; does config.json belong to these weights?", file.path(),
               printable(name), to_string(shape), to_string(entry->tensor.shape));
  file.read_floats(entry->tensor, out);
}

std::vector<float> ModelFolder::read_floats(std::string_view name, const FileShape& shape) const {
  const Entry* entry = find(name);
  std::vector<float> values(entry ? static_cast<std::size_t>(entry->tensor.elements()) : 0);
  read_floats(name, shape, values);
  return values;
}

std::uint64_t ModelFolder::bytes() const {
  std::uint64_t total = 0;
  for (const auto& file : files_) total += file->file_bytes();
  return total;
}

void require_config(std::string_view where, const ModelFolder& folder) {
  if (folder.has_config()) return;
  if (!folder.is_weights_alone())
    fail_input("{} {}: has no config.json; name a run folder or a model folder", where, folder.path());
  const std::string& file = folder.files().front()->path();
  fail_input("{} {}: is a file of weights, and a folder with config.json is wanted; {}", where, file,
             folder_instead_of(file));
}

std::vector<std::pair<std::string, std::string>> parse_index(std::string_view text, const std::string& file_name) {
  const Json index = parse_json(text, file_name, 8);
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object())
    fail_input("{}: has no weight_map, which says in which file each tensor lies", file_name);
  std::vector<std::pair<std::string, std::string>> map;
  for (const auto& [tensor, file] : index["weight_map"].items()) {
    const std::string name = file.is_string() ? file.get<std::string>() : "";
    if (!is_inside(name) || name.find('/') != std::string::npos || !name.ends_with(".safetensors"))
      fail_input("{}: tensor {} is said to lie in '{}'; only .safetensors files of the same folder are opened",
                 file_name, printable(tensor), printable(file.dump()));
    map.emplace_back(tensor, name);
  }
  return map;
}

bool natural_less(std::string_view a, std::string_view b) {
  // Skips the common prefix, except for digits that may belong to a differing number.
  std::size_t i = static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
  while (i > 0 && a[i - 1] >= '0' && a[i - 1] <= '9') --i;
  std::size_t j = i;
  while (i < a.size() && j < b.size()) {
    const std::size_t in_a = digits_at(a, i), in_b = digits_at(b, j);
    if (in_a && in_b) {
      // Without leading zeros, the number with more digits is larger.
      if (in_a != in_b && a[i] != '0' && b[j] != '0') return in_a < in_b;
      if (const int order = a.substr(i, in_a).compare(b.substr(j, in_b))) return order < 0;
      i += in_a;
      j += in_b;
    } else if (a[i] != b[j]) {
      return static_cast<unsigned char>(a[i]) < static_cast<unsigned char>(b[j]);
    } else {
      ++i, ++j;
    }
  }
  return a.size() - i < b.size() - j;
}

}  // namespace comera::io
