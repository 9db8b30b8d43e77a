// `comera export --to safetensors`: writes a compressed model as a plain Hugging Face folder, as if it had never been
// compressed.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lib/export/export.h"

namespace comera::exporting {

struct DenseFolder {
  std::uint64_t bytes = 0, bytes_source = 0;  // of all weight files
  std::vector<std::string> chains;            // weights that were multiplied out, by name
  std::vector<std::string> copied, left_out;  // other files, relative names
};

// merged: weights on grids with their corrections, in the type that the dense model had. apart: in fp32, which holds
// the numbers of every grid exactly, and linear weights without their corrections (corrections.h).
enum class Grids : std::uint8_t { merged, apart };

// The sizes that write_dense_folder() would write, computed from headers alone.
DenseFolder plan_dense_folder(const io::ModelFolder& folder, Grids grids = Grids::merged);
// Multiplies out every chain in the type of its cores and copies everything else. config.json has no comera block. If
// the folder has shards, shards of at most 5 GB are written as Hugging Face does. Memory holds at most one weight. The
// folder appears atomically: `check` runs on the finished folder before it gets its final name.
using CheckFolder = std::function<void(const std::string& folder)>;
DenseFolder write_dense_folder(const io::ModelFolder& folder, const Target& target, const CheckFolder& check = {},
                               Grids grids = Grids::merged);

// Tensors in shards of at most 5 GB, as Hugging Face writes them, and the metadata of each shard.
std::vector<std::vector<io::TensorToWrite>> sharded(const std::vector<io::TensorToWrite>& tensors);
io::Metadata folder_metadata();

// config.json without the comera block, for programs that do not support chains.
std::string dense_config(const io::ModelFolder& folder);

}  // namespace comera::exporting
