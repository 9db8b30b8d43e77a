// Weights and moments as safetensors. Names are the parameters' own (lib/io/FORMAT.md); linear weights are [out, in] in files.
#pragma once

#include <cstdint>
#include <string>

#include "lib/io/safetensors.h"
#include "lib/train/weights.h"

namespace comera::train {

// Whole-file bytes of what save_weights() would write, from shapes alone.
std::uint64_t weights_file_bytes(const Model& model);

void save_weights(const std::string& path, const Weights& weights);
// Every parameter must be in the file with its shape; other tensors of the file are not looked at. InputError naming file and tensor.
void load_weights(const std::string& path, Weights& weights);

// "moment1.<name>" and "moment2.<name>", in the orientation of memory.
void save_moments(const std::string& path, const Weights& weights);
void load_moments(const std::string& path, Weights& weights);

}  // namespace comera::train
