// The keys of a GGUF file that begin with its architecture: those that are read, those that change no answer, and those
// that have one value in every model that is read.
#pragma once

#include "lib/io/gguf/gguf.h"

namespace comera::io {

// Numbers of a head of q and k. InputError: the weight of the first layer has other heads.
std::int64_t gguf_head_size(const GgufFile& file, std::int64_t width, std::int64_t heads);

// InputError: another architecture.
void require_known_architecture(const GgufFile& file);

// InputError that names a key which is not known, or has a value that changes the answers.
void check_gguf_settings(const GgufFile& file, std::int64_t head_size);

}  // namespace comera::io
