// Scaled positions of a GGUF file, as `rope_scaling` of config.json describes them.
#pragma once

#include "lib/io/gguf/gguf.h"
#include "lib/io/json.h"

namespace comera::io {

// The tensor of divisors of the frequencies, [head size / 2], which llama.cpp has for positions of kind llama3.
inline constexpr const char* rope_divisors_name = "rope_freqs.weight";

// `rope_scaling` of config.json, from keys and from the divisors; empty: the positions are not scaled. InputError:
// another kind of scaling, or divisors that are none of kind llama3.
Json gguf_rope_scaling(const GgufFile& file, std::int64_t head_size);

// The base of the frequencies.
double gguf_theta(const GgufFile& file);

// The shortest decimal of the float that the file stores: 1e-05, not 9.99999974737875e-06.
double shortest(double stored);

}  // namespace comera::io
