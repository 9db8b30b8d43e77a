// `comera export --to peft`: a dense Hugging Face folder for `transformers`, and a LoRA adapter of PEFT in its
// sub-folder `adapter` that holds the low-rank corrections of weights on grids.
#pragma once

#include "lib/export/dense_folder.h"

namespace comera::exporting {

constexpr const char* adapter_folder = "adapter";

struct PeftFolder {
  DenseFolder base;
  std::uint64_t bytes_adapter = 0;       // of its weights
  std::int64_t corrections = 0;          // weights that the adapter corrects
  std::int64_t largest_rank = 0;         // of the adapter
  std::vector<std::string> merged = {};  // corrections of tables, which are in the base
};

// InputError: no weight has a correction.
PeftFolder plan_peft_folder(const io::ModelFolder& folder);
// The folder appears atomically: `check` runs on the finished folder before it gets its final name. Memory holds one
// weight.
PeftFolder write_peft_folder(const io::ModelFolder& folder, const Target& target, const CheckFolder& check = {});

}  // namespace comera::exporting
