#include "lib/export/dense_folder.h"

#include <map>
#include <set>

#include "lib/core/terminal/stop.h"
#include "lib/core/terminal/task_progress.h"
#include "lib/export/chains.h"
#include "lib/export/corrections.h"
#include "lib/io/chain_parts.h"

namespace comera::exporting {
namespace {

constexpr std::uint64_t shard_bytes = 5'000'000'000;

// The dense tensors of the folder: tensors that belong to no chain, and the dense weights of the chains.
std::vector<io::TensorToWrite> tensors_of(const io::ModelFolder& folder, const WeightReader& weights, Grids grids) {
  std::set<std::string> parts;
  for (const io::ChainSpec& chain : weights.block().chains)
    for (io::ChainPart& part : io::parts_of(chain)) parts.insert(std::move(part.name));
  std::vector<io::TensorToWrite> tensors;
  for (const io::ModelFolder::Entry& entry : folder.entries())
    if (!parts.contains(entry.tensor.name))
      tensors.push_back({entry.tensor.name, entry.tensor.type, entry.tensor.shape});
  for (const io::ChainSpec& chain : weights.block().chains) {
    const bool exact = chain.base && grids == Grids::apart;
    tensors.push_back({chain.weight_name(), exact ? io::StoredType::F32 : weights.dense_type(chain), chain.shape});
  }
  return tensors;
}

// dense_config() of a folder in fp32: transformers rounds to the type that config.json names.
std::string in_fp32(const io::ModelFolder& folder) {
  io::Json config = io::parse_json(dense_config(folder), folder.config_path());
  for (const char* key : {"torch_dtype", "dtype"})
    if (config.contains(key)) config[key] = "float32";
  return io::json_text(config);
}

}  // namespace

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

io::Metadata folder_metadata() { return {{"format", "pt"}}; }

std::string dense_config(const io::ModelFolder& folder) {
  io::Json config = folder.config();
  const auto block = io::parse_comera_block(config, folder.config_path());
  config.erase("comera");
  if (block && !block->reading.empty()) config["comera"] = io::to_json(io::ComeraBlock{{}, {}, {}, block->reading});
  return io::json_text(config);
}

namespace {

DenseFolder described(const io::ModelFolder& folder, const WeightReader& weights,
                      const std::vector<std::vector<io::TensorToWrite>>& shards) {
  DenseFolder result;
  result.bytes = io::weights_bytes(shards, folder_metadata());
  result.bytes_source = folder.bytes();
  for (const io::ChainSpec& chain : weights.block().chains) result.chains.push_back(chain.name);
  return result;
}

}  // namespace

DenseFolder plan_dense_folder(const io::ModelFolder& folder, Grids grids) {
  const WeightReader weights(folder);
  const auto shards = sharded(tensors_of(folder, weights, grids));
  return described(folder, weights, shards);
}

DenseFolder write_dense_folder(const io::ModelFolder& folder, const Target& target, const CheckFolder& check,
                               Grids grids) {
  const WeightReader weights(folder);
  const auto shards = sharded(tensors_of(folder, weights, grids));
  DenseFolder result = described(folder, weights, shards);
  std::map<std::string, const io::ChainSpec*> chains;
  for (const io::ChainSpec& chain : weights.block().chains) chains[chain.weight_name()] = &chain;
  AtomicFolder making(target.path);
  const std::string place = folder.place_in(making.temporary());
  make_folders(place);
  std::int64_t tensors = 0;
  for (const auto& shard : shards) tensors += std::ssize(shard);
  TaskProgress task("writing tensors", tensors);
  io::write_weights(place, shards, folder_metadata(), [&](const io::TensorToWrite& tensor, io::TensorSink& sink) {
    check_stop();
    task.advance();
    if (const io::ModelFolder::Entry* entry = folder.find(tensor.name)) {
      const auto bytes = folder.file_of(*entry).bytes(entry->tensor);
      return sink.bytes(bytes.data(), bytes.size());
    }
    const io::ChainSpec& chain = *chains.at(tensor.name);
    const bool alone = grids == Grids::apart && is_linear_correction(chain);
    sink.floats((alone ? base_as_stored(folder, chain) : weights.as_stored(chain)).values);
  });
  io::CopiedFiles others = io::copy_side_files(folder.path(), making.temporary(), io::CopyLayout::same);
  write_file_atomic(join_path(place, "config.json"), grids == Grids::apart ? in_fp32(folder) : dense_config(folder));
  result.copied = std::move(others.copied);
  result.left_out = std::move(others.left_out);
  if (check) check(making.temporary());
  finish(making, target);
  return result;
}

}  // namespace comera::exporting
