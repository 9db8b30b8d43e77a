// `comera export --to safetensors`: a plain Hugging Face folder of a compressed model, as if it had never been
// compressed.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lib/export/export.h"

namespace comera::exporting {

struct DenseFolder {
  std::uint64_t bytes = 0, bytes_source = 0;  // of all weight files
  std::int64_t chains = 0;                    // that were multiplied out
  std::vector<std::string> copied, left_out;  // other files, relative names
};

// The sizes that write_dense_folder() would write, from headers alone.
DenseFolder plan_dense_folder(const io::ModelFolder& folder);
// Every chain multiplied out in the type of its cores, everything else as it is; config.json without the comera block.
// Shards of at most 5 GB as Hugging Face makes them, where the folder has its own; no more than one weight is in
// memory. The folder appears whole or not at all. `check` is called with the finished folder before it appears under
// its name.
using CheckFolder = std::function<void(const std::string& folder)>;
DenseFolder write_dense_folder(const io::ModelFolder& folder, const Target& target, const CheckFolder& check = {});

// config.json for programs that do not know chains.
std::string dense_config(const io::ModelFolder& folder);

}  // namespace comera::exporting
