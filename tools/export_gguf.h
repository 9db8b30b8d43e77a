// `comera export` of and to GGUF files.
#pragma once

#include "lib/core/options/options.h"
#include "lib/export/export.h"

namespace comera::tools {

// "layers.0.q_proj and 41 more". `names` is not empty.
std::string some_of(const std::vector<std::string>& names);

// InputError: an option of ONNX, or a target that is a file.
void refuse_onnx_words(const OptionValues& values, const exporting::Target& target);

// A GGUF file becomes a Hugging Face folder.
int export_from_gguf(const OptionValues& values, const io::ModelFolder& folder, const exporting::Target& target);
// A model folder becomes a GGUF file.
int export_to_gguf(const OptionValues& values, const io::ModelFolder& folder, const exporting::Target& target);

}  // namespace comera::tools
