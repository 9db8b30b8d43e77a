// `comera export MODEL --to gguf`: writes a llama model as a GGUF file that llama.cpp runs.
#pragma once

#include <string>
#include <vector>

#include "lib/export/export.h"
#include "models/decoder/decoder_spec.h"

namespace comera::exporting {

struct GgufOptions {
  bool merged = false;  // every weight dense
  bool half = false;    // dense matrices in F16; else in the type that they have
};

struct GgufWrote {
  std::uint64_t bytes = 0, bytes_source = 0;
  std::uint64_t bytes_adapter = 0;         // of the file of corrections; 0: there is none
  std::string adapter = {};                // its path
  std::int64_t tensors = 0, on_grids = 0;  // all tensors, and those of them that are stored in blocks
  std::vector<std::string> widened = {};   // 2 and 3 bits, groups above 32: the same numbers in Q4_0
  // Chains that were multiplied out, grids whose lines are no whole blocks, and tables on grids with exact rows.
  std::vector<std::string> dense = {};
  std::vector<std::string> unused = {};  // tensors without a place in the model, which the file does not hold
  std::string without_tokenizer = {};    // why the file has no tokenizer; empty: it has one
};

// The sizes that write_gguf_file() would write.
GgufWrote plan_gguf_file(const io::ModelFolder& folder, const models::DecoderSpec& spec, const GgufOptions& options,
                         const Target& target);
// Weights on the grids q8_0, q4_1 and q4_0 keep their bytes. Their low-rank corrections become an adapter (a LoRA of
// llama.cpp with a scale of 1) in a second file, `target` with .lora.gguf. All other chains are multiplied out. The
// files are read again and compared before they get their names: InputError for a number that the type does not hold.
GgufWrote write_gguf_file(const io::ModelFolder& folder, const models::DecoderSpec& spec, const GgufOptions& options,
                          const Target& target);

}  // namespace comera::exporting
