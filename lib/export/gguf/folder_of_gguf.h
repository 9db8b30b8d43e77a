// `comera export model.gguf --to safetensors`: writes a GGUF file of the llama architecture as a Hugging Face folder.
#pragma once

#include "lib/export/export.h"
#include "lib/io/gguf/gguf.h"

namespace comera::exporting {

struct GgufFolder {
  std::uint64_t bytes = 0, bytes_source = 0;  // of the weight files, of the GGUF file
  std::int64_t quantised = 0;                 // tensors that were quantised and become fp32
  std::string without_tokenizer = {};         // why the folder has no tokenizer; empty: it has one
};

// InputError: another architecture, a tensor or a setting that such a folder cannot hold.
GgufFolder plan_gguf_folder(const io::GgufFile& file);
// Names and layouts become those of `transformers`: llama.cpp stores the rows of q and k in pairs for its rotary
// embedding. Quantised tensors become fp32, others keep their type. Memory holds one row. The folder appears
// atomically.
GgufFolder write_gguf_folder(const io::GgufFile& file, const Target& target);

// config.json of the model.
io::Json gguf_config(const io::GgufFile& file);
// tokenizer.json of a byte-level BPE, as PyPI's tokenizers reads it. InputError for other kinds.
io::Json gguf_tokenizer(const io::GgufFile& file);
io::Json gguf_tokenizer_config(const io::GgufFile& file);

}  // namespace comera::exporting
