#include "lib/export/dense_folder.h"

#include <map>

#include "lib/export/chains.h"

namespace comera::exporting {
namespace {

constexpr std::uint64_t shard_bytes = 5'000'000'000;

bool belongs_to_chain(const std::string& name, const std::string& chain) {
  if (!name.starts_with(chain + ".")) return false;
  const std::string rest = name.substr(chain.size() + 1);
  return rest.starts_with("tt.") || rest.starts_with("rank.") || rest == "order" || rest == "gauge" || rest.starts_with("exact.");
}

// The dense tensors of the folder: those that it has, and what the chains stand for.
std::vector<io::TensorToWrite> tensors_of(const io::ModelFolder& folder, const WeightReader& weights) {
  std::vector<io::TensorToWrite> tensors;
  for (const io::ModelFolder::Entry& entry : folder.entries()) {
    bool core = false;
    for (const io::ChainSpec& chain : weights.block().chains) core = core || belongs_to_chain(entry.tensor.name, chain.name);
    if (!core) tensors.push_back({entry.tensor.name, entry.tensor.type, entry.tensor.shape});
  }
  for (const io::ChainSpec& chain : weights.block().chains) {
    const io::ModelFolder::Entry* first = folder.find(chain.core_name(0));
    tensors.push_back({chain.weight_name(), first ? first->tensor.type : io::StoredType::F32, chain.shape});
  }
  return tensors;
}

std::vector<std::vector<io::TensorToWrite>> sharded(const std::vector<io::TensorToWrite>& tensors) {
  std::vector<std::vector<io::TensorToWrite>> shards(1);
  std::uint64_t filled = 0;
  for (const io::TensorToWrite& tensor : tensors) {
    const std::uint64_t bytes = static_cast<std::uint64_t>(io::elements_of(tensor.shape)) * io::size_of(tensor.type);
    if (filled > 0 && filled + bytes > shard_bytes) {
      shards.emplace_back();
      filled = 0;
    }
    shards.back().push_back(tensor);
    filled += bytes;
  }
  return shards;
}

io::Metadata metadata() { return {{"format", "pt"}}; }

// In the orientation of the file.
Matrix dense_weight(const WeightReader& weights, const io::ChainSpec& spec) {
  if (spec.kind == io::ChainKind::ttm) return weights.table(spec.name, spec.shape[0], spec.shape[1]);
  Matrix weight = weights.linear(spec.name, spec.in(), spec.out());
  return spec.conv1d ? weight : transposed(weight);
}

}  // namespace

std::string dense_config(const io::ModelFolder& folder) {
  io::Json config = folder.config();
  config.erase("comera");
  return io::json_text(config);
}

DenseFolder plan_dense_folder(const io::ModelFolder& folder) {
  const WeightReader weights(folder);
  const auto shards = sharded(tensors_of(folder, weights));
  return {io::weights_bytes(shards, metadata()), folder.bytes(), static_cast<std::int64_t>(weights.block().chains.size()), {}, {}};
}

DenseFolder write_dense_folder(const io::ModelFolder& folder, const std::string& path) {
  const WeightReader weights(folder);
  const auto shards = sharded(tensors_of(folder, weights));
  DenseFolder result{io::weights_bytes(shards, metadata()), folder.bytes(), static_cast<std::int64_t>(weights.block().chains.size()), {}, {}};
  AtomicFolder making(path);
  const std::string place = folder.place_in(making.temporary());
  make_folders(place);
  io::write_weights(place, shards, metadata(), [&](const io::TensorToWrite& tensor, io::TensorSink& sink) {
    if (const io::ModelFolder::Entry* entry = folder.find(tensor.name)) {
      const auto bytes = folder.file_of(*entry).bytes(entry->tensor);
      return sink.bytes(bytes.data(), bytes.size());
    }
    const auto& chains = weights.block().chains;
    const auto chain = std::find_if(chains.begin(), chains.end(), [&](const io::ChainSpec& spec) { return spec.weight_name() == tensor.name; });
    sink.floats(dense_weight(weights, *chain).values);
  });
  io::CopiedFiles others = io::copy_side_files(folder.path(), making.temporary(), io::CopyLayout::same);
  write_file_atomic(join_path(place, "config.json"), dense_config(folder));
  result.copied = std::move(others.copied);
  result.left_out = std::move(others.left_out);
  making.commit();
  return result;
}

}  // namespace comera::exporting
