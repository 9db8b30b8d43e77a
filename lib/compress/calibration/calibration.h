// Runs calibration text through the model and computes the second moments of its layers' inputs.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/compress/calibration/moments.h"
#include "lib/data/files/format.h"
#include "lib/plan/walk.h"

namespace comera::compress {

struct CalibrationSettings {
  std::string model;               // a folder that models::spec_from_folder() reads
  std::vector<std::string> files;  // text, one sequence per line, or tables; globs
  std::string tokenizer;           // file or folder; "": the model's folder
  std::int64_t tokens = 0;  // upper limit, with a quarter of the sequences held out; 0: until enough tokens are fitted
  std::int64_t length = 128;                // tokens of the longest sequence
  std::vector<std::string> columns = {};    // of tables, one sequence per row; empty: "text"
  bool chat = false;                        // rows are conversations, by the template beside the tokenizer
  std::optional<data::Format> format = {};  // of all files; empty: from their names
  // Folder for temporary data that is too large for memory; "": the folder of temporary files.
  std::string scratch = {};
  std::string adapter = {};  // a PEFT LoRA folder that is merged into the model; "": none
  bool clips_tokens = true;  // tokens with a long residual stream count less (Collector::Seen::weights)
  // Bytes of moments of layers that are measured together. More than one layer's are measured apart, and those of a
  // single layer are stored in the scratch folder.
  std::uint64_t moments_in_memory = std::uint64_t{1} << 30;
};

// Bytes of the moments of a layer with so many inputs: of three parts of the text, and what fits need of the same size.
constexpr std::uint64_t moment_bytes(std::int64_t inputs) {
  return 7 * sizeof(double) * static_cast<std::uint64_t>(inputs) * static_cast<std::uint64_t>(inputs);
}

// Reads weights when they are used, and stores block outputs in a file. Memory holds the largest matrix, the
// activations of one batch, and at one size the moments of one layer (of all layers of a block if they need at most
// `moments_in_memory`). Of a layer whose moments need more, memory holds one moment at a time.
// InputError: a model, text or tokenizer that cannot be used. Logs a warning if an input has more dimensions than a
// tenth of the fitted tokens.
std::unique_ptr<InputMoments> calibrate(const plan::Machine& machine, const CalibrationSettings& settings);

}  // namespace comera::compress
