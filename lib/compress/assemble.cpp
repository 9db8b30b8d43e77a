#include "lib/compress/assemble.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <memory>
#include <set>

#include "lib/core/error.h"
#include "lib/core/terminal/log.h"
#include "lib/core/terminal/stop.h"
#include "lib/core/terminal/task_progress.h"

namespace comera::compress {
namespace {

using Shards = std::vector<std::vector<io::TensorToWrite>>;
// A layer that becomes a chain at the size that is counted or written.
struct CutLayer {
  const LayerJob* job;
  io::ChainSpec chain;
  const std::string* file;  // holds the tensors of the chain; empty before the layer is fitted

  std::vector<io::TensorToWrite> tensors() const { return tensors_of(chain, job->candidate.type); }
};

std::vector<CutLayer> cut_layers(const std::vector<LayerJob>& jobs, std::size_t size) {
  std::vector<CutLayer> layers;
  for (const LayerJob& job : jobs)
    if (std::optional<io::ChainSpec> chain = job.chain(size))
      layers.push_back({&job, std::move(*chain), &job.sizes[size].file});
  return layers;
}

// The tensors of every shard. A chain goes into the shard of its dense weight.
Shards shards_of(const io::ModelFolder& folder, const std::vector<CutLayer>& layers) {
  std::map<std::string, const CutLayer*> replaced;
  std::set<std::string> gone;
  for (const CutLayer& layer : layers) {
    const Candidate& candidate = layer.job->candidate;
    replaced[candidate.tensor] = &layer;
    gone.insert(candidate.tied.begin(), candidate.tied.end());
  }
  Shards shards(folder.files().size());
  for (const io::ModelFolder::Entry& entry : folder.entries()) {
    std::vector<io::TensorToWrite>& shard = shards[static_cast<std::size_t>(entry.file)];
    const auto found = replaced.find(entry.tensor.name);
    if (found != replaced.end()) {
      for (const io::TensorToWrite& tensor : found->second->tensors()) shard.push_back(tensor);
    } else if (!gone.contains(entry.tensor.name)) {
      shard.push_back({entry.tensor.name, entry.tensor.type, entry.tensor.shape});
    }
  }
  std::erase_if(shards, [](const auto& shard) { return shard.empty(); });
  return shards;
}

// The certificate of a model that is tensorized already, without output errors: compressing more of the model changes
// the inputs of these layers.
Certificate earlier_certificate(const io::ModelFolder& folder) {
  const auto found = folder.metadata().find(certificate_key);
  if (found == folder.metadata().end()) return {};
  Certificate certificate = parse_certificate(found->second, folder.path());
  for (Certificate::Layer& layer : certificate.layers)
    layer.earlier = true, layer.output_error = layer.direction_error = std::nullopt;
  return certificate;
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
void copy(const io::WeightFile& file, const io::StoredTensor& tensor, io::TensorSink& sink) {
  const io::StoredBytes stored = file.bytes(tensor);
  const std::span<const std::byte> bytes = stored.span();
  constexpr std::size_t piece = std::size_t{32} << 20;  // a multiple of every element's size
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    check_stop();
    const auto part = bytes.subspan(at, std::min(piece, bytes.size() - at));
    check_finite(part, tensor, file.path());
    sink.bytes(part.data(), part.size());
  }
  file.forget(tensor);
}

io::Json config_of(const DenseParts& dense, const std::vector<CutLayer>& layers) {
  io::Json config = dense.folder.config();
  io::ComeraBlock made = dense.block.value_or(io::ComeraBlock{});
  for (const CutLayer& layer : layers) made.chains.push_back(layer.chain);
  if (!dense.reading.empty()) made.reading = dense.reading;
  if (!made.chains.empty() || !made.reading.empty()) config["comera"] = io::to_json(made);
  return config;
}

// The files of finished layers. One file is open at a time; it is opened when its first tensor is needed.
class LayerFiles {
 public:
  explicit LayerFiles(const std::vector<CutLayer>& layers) {
    for (const CutLayer& layer : layers)
      for (const io::TensorToWrite& tensor : layer.tensors()) layer_of_[tensor.name] = &layer;
  }

  // Returns null if the tensor belongs to no layer.
  const io::SafetensorsFile* holding(const std::string& tensor) {
    const auto found = layer_of_.find(tensor);
    if (found == layer_of_.end()) return nullptr;
    if (layer_ != found->second) open_ = std::make_unique<io::SafetensorsFile>(*(layer_ = found->second)->file);
    return open_.get();
  }

 private:
  std::map<std::string, const CutLayer*> layer_of_;
  std::unique_ptr<io::SafetensorsFile> open_;
  const CutLayer* layer_ = nullptr;
};

// Files with vectors in place of those of the dense folder. They are small, so all are open.
class Vectors {
 public:
  explicit Vectors(const std::vector<std::string>& paths) {
    for (const std::string& path : paths)
      for (const io::StoredTensor& tensor : files_.emplace_back(path).tensors()) file_of_[tensor.name] = &files_.back();
  }

  // Returns null if no file has the tensor.
  const io::SafetensorsFile* holding(const std::string& tensor) const {
    const auto found = file_of_.find(tensor);
    return found == file_of_.end() ? nullptr : found->second;
  }
  std::string hash() const {
    std::map<std::string, std::span<const std::byte>> all;
    for (const auto& [name, file] : file_of_) all[name] = file->bytes(*file->find(name));
    return hash_vectors(all);
  }

 private:
  std::deque<io::SafetensorsFile> files_;
  std::map<std::string, const io::SafetensorsFile*> file_of_;
};

}  // namespace

std::uint64_t WeightsFiles::bytes(const std::vector<LayerJob>& jobs, std::size_t size) const {
  const std::vector<CutLayer> layers = cut_layers(jobs, size);
  std::vector<std::string> names;
  const Certificate earlier = earlier_certificate(folder_);
  for (const Certificate::Layer& layer : earlier.layers) names.push_back(layer.name);
  for (const CutLayer& layer : layers) names.push_back(layer.job->candidate.name);
  return io::weights_bytes(shards_of(folder_, layers), metadata_with(widest_certificate(
                                                           names, calibration_, refined_ || !earlier.refined.empty())));
}

// Two entries in the header.
std::uint64_t WeightsFiles::third_core_bytes(const LayerPlan& plan) const { return 2 * (plan.name.size() + 110); }

io::CopiedFiles assemble(const std::vector<LayerJob>& jobs, std::size_t size, const DenseParts& dense,
                         const std::optional<MomentsInfo>& calibration, const std::string& output) {
  const io::ModelFolder& folder = dense.folder;
  const std::vector<CutLayer> layers = cut_layers(jobs, size);
  AtomicFolder made(output);
  io::CopiedFiles files;
  // A weights file without a config gives no reason to copy the files beside it.
  if (folder.has_config() || !folder.place().empty())
    files = io::copy_side_files(folder.path(), made.temporary(), io::CopyLayout::same);
  const std::string place = folder.place_in(made.temporary());
  make_folders(place);
  Certificate certificate = certificate_of(outcomes_at(jobs, size), calibration);
  const Vectors vectors(dense.vectors);
  const Certificate earlier = earlier_certificate(folder);
  certificate.refined = earlier.refined.empty() ? vectors.hash() : earlier.refined;
  for (const Certificate::Layer& layer : earlier.layers) certificate.layers.push_back(layer);
  LayerFiles layer_files(layers);
  const Shards shards = shards_of(folder, layers);
  std::int64_t tensors = 0;
  for (const auto& shard : shards) tensors += std::ssize(shard);
  TaskProgress task("writing tensors", tensors);
  const auto fill = [&](const io::TensorToWrite& tensor, io::TensorSink& sink) {
    task.advance();
    if (const io::SafetensorsFile* file = layer_files.holding(tensor.name))
      return copy(*file, *file->find(tensor.name), sink);
    if (const io::SafetensorsFile* file = vectors.holding(tensor.name))
      return copy(*file, *file->find(tensor.name), sink);
    const io::ModelFolder::Entry& entry = *folder.find(tensor.name);
    copy(folder.file_of(entry), entry.tensor, sink);
  };
  io::write_weights(place, shards, metadata_with(to_text(certificate)), fill);
  write_file_atomic(join_path(place, "config.json"), io::json_text(config_of(dense, layers)));
  made.commit_new();
  return files;
}

}  // namespace comera::compress
