// A Llama decoder: RMSNorm before each branch, rotary positions, grouped heads, a gated feed-forward, a head tied to
// the word table or its own.
#pragma once

#include "models/decoder_spec.h"

namespace comera::models {

// A spec that check() accepts. Weights are unbound; dtype is that of the backend that will compute.
//
// A batch has input_ids, samples and lengths; position_ids and key_begin where documents are packed; `targets` for a
// loss, or `logit_rows` (i32 [P], rows in [0, B*T)) for logits. With a cache also key_end and cache_rows, all counted
// in rows of the cache.
std::unique_ptr<layers::Model> make_decoder(const DecoderSpec& spec, DType dtype);

}  // namespace comera::models
