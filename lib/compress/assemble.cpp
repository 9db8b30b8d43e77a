#include "lib/compress/assemble.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "lib/core/error.h"
#include "lib/core/log.h"
#include "lib/core/stop.h"
#include "lib/core/task_progress.h"

namespace comera::compress {
namespace {

using Shards = std::vector<std::vector<io::TensorToWrite>>;
using Chains = std::vector<std::optional<io::ChainSpec>>;

// The tensors of every shard. A chain goes into the shard of its dense weight.
Shards shards_of(const io::ModelFolder& folder, const std::vector<Candidate>& candidates, const Chains& chains) {
  std::map<std::string, std::size_t> replaced;
  std::set<std::string> gone;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (!chains[i]) continue;
    replaced[candidates[i].tensor] = i;
    gone.insert(candidates[i].tied.begin(), candidates[i].tied.end());
  }
  Shards shards(folder.files().size());
  for (const io::ModelFolder::Entry& entry : folder.entries()) {
    std::vector<io::TensorToWrite>& shard = shards[static_cast<std::size_t>(entry.file)];
    const auto found = replaced.find(entry.tensor.name);
    if (found != replaced.end()) {
      for (const io::TensorToWrite& tensor : tensors_of(*chains[found->second], candidates[found->second].type))
        shard.push_back(tensor);
    } else if (!gone.contains(entry.tensor.name)) {
      shard.push_back({entry.tensor.name, entry.tensor.type, entry.tensor.shape});
    }
  }
  std::erase_if(shards, [](const auto& shard) { return shard.empty(); });
  return shards;
}

// Layers in the certificate of a model that already has chains and is compressed again.
std::vector<Certificate::Layer> earlier_layers(const io::ModelFolder& folder) {
  const auto found = folder.metadata().find(certificate_key);
  return found == folder.metadata().end() ? std::vector<Certificate::Layer>()
                                          : parse_certificate(found->second, folder.path()).layers;
}

io::Metadata metadata_with(std::string certificate) {
  io::Metadata metadata = io::weights_metadata();
  metadata[certificate_key] = std::move(certificate);
  return metadata;
}

void check_finite(std::span<const std::byte> bytes, const io::StoredTensor& tensor, const std::string& file) {
  if (!io::is_floating(tensor.type)) return;
  constexpr std::size_t chunk = std::size_t{1} << 16;
  const std::size_t element = io::size_of(tensor.type), count = bytes.size() / element;
  std::vector<float> values(std::min(chunk, count));
  for (std::size_t at = 0; at < count; at += chunk) {
    const std::span<float> part = std::span(values).first(std::min(chunk, count - at));
    io::to_floats(tensor.type, bytes.subspan(at * element, part.size() * element), part);
    for (std::size_t i = 0; i < part.size(); ++i)
      if (!std::isfinite(part[i]))
        fail_input("{}: tensor {}: its element {} is {}; the file is damaged or its training diverged, use another one",
                   file, printable(tensor.name), at + i, part[i]);
  }
}

// Copies a tensor in pieces and releases the mapped memory of each piece after it is read.
void copy(const io::SafetensorsFile& file, const io::StoredTensor& tensor, io::TensorSink& sink) {
  const auto bytes = file.bytes(tensor);
  constexpr std::size_t piece = std::size_t{32} << 20;  // a multiple of every element's size
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    check_stop();
    const auto part = bytes.subspan(at, std::min(piece, bytes.size() - at));
    check_finite(part, tensor, file.path());
    sink.bytes(part.data(), part.size());
  }
  file.forget(tensor);
}

io::Json config_of(const io::ModelFolder& folder, const std::optional<io::ComeraBlock>& block, const Chains& chains) {
  io::Json config = folder.config();
  io::ComeraBlock made = block.value_or(io::ComeraBlock{});
  for (const std::optional<io::ChainSpec>& chain : chains)
    if (chain) made.chains.push_back(*chain);
  if (!made.chains.empty()) config["comera"] = io::to_json(made);
  return config;
}

// The files of finished layers. One file is open at a time; it is opened when its first tensor is needed.
class LayerFiles {
 public:
  LayerFiles(const Chains& chains, const std::vector<Candidate>& candidates,
             const std::function<std::string(std::size_t)>& path_of)
      : path_of_(path_of) {
    for (std::size_t i = 0; i < chains.size(); ++i)
      if (chains[i])
        for (const io::TensorToWrite& tensor : tensors_of(*chains[i], candidates[i].type)) layer_of_[tensor.name] = i;
  }

  // Returns null if the tensor belongs to no layer.
  const io::SafetensorsFile* holding(const std::string& tensor) {
    const auto found = layer_of_.find(tensor);
    if (found == layer_of_.end()) return nullptr;
    if (!open_ || layer_ != found->second)
      open_ = std::make_unique<io::SafetensorsFile>(path_of_(layer_ = found->second));
    return open_.get();
  }

 private:
  const std::function<std::string(std::size_t)>& path_of_;
  std::map<std::string, std::size_t> layer_of_;
  std::unique_ptr<io::SafetensorsFile> open_;
  std::size_t layer_ = 0;
};

}  // namespace

std::uint64_t planned_file_bytes(const io::ModelFolder& folder, const std::vector<Candidate>& candidates,
                                 const Chains& chains, const std::optional<MomentsInfo>& calibration) {
  std::vector<std::string> names;
  for (const Certificate::Layer& layer : earlier_layers(folder)) names.push_back(layer.name);
  for (std::size_t i = 0; i < chains.size(); ++i)
    if (chains[i]) names.push_back(candidates[i].name);
  return io::weights_bytes(shards_of(folder, candidates, chains),
                           metadata_with(widest_certificate(names, calibration)));
}

io::CopiedFiles assemble(const io::ModelFolder& folder, const std::optional<io::ComeraBlock>& block,
                         const std::vector<Candidate>& candidates, const std::vector<LayerOutcome>& layers,
                         const std::function<std::string(std::size_t)>& path_of,
                         const std::optional<MomentsInfo>& calibration, const std::string& output) {
  Chains chains;
  for (const LayerOutcome& layer : layers) chains.push_back(layer.chain);
  AtomicFolder made(output);
  io::CopiedFiles files;
  // A weights file without a config gives no reason to copy the files beside it.
  if (folder.has_config() || !folder.place().empty())
    files = io::copy_side_files(folder.path(), made.temporary(), io::CopyLayout::same);
  const std::string place = folder.place_in(made.temporary());
  make_folders(place);
  Certificate certificate = certificate_of(layers, calibration);
  for (const Certificate::Layer& layer : earlier_layers(folder)) certificate.layers.push_back(layer);
  LayerFiles layer_files(chains, candidates, path_of);
  const Shards shards = shards_of(folder, candidates, chains);
  std::int64_t tensors = 0;
  for (const auto& shard : shards) tensors += std::ssize(shard);
  TaskProgress task("writing tensors", tensors);
  const auto fill = [&](const io::TensorToWrite& tensor, io::TensorSink& sink) {
    task.advance();
    if (const io::SafetensorsFile* file = layer_files.holding(tensor.name))
      return copy(*file, *file->find(tensor.name), sink);
    const io::ModelFolder::Entry& entry = *folder.find(tensor.name);
    copy(folder.file_of(entry), entry.tensor, sink);
  };
  io::write_weights(place, shards, metadata_with(to_text(certificate)), fill);
  write_file_atomic(join_path(place, "config.json"), io::json_text(config_of(folder, block, chains)));
  made.commit_new();
  return files;
}

}  // namespace comera::compress
