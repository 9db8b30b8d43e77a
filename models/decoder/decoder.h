// A Llama decoder: RMSNorm before each branch, rotary positions, grouped heads, a gated feed-forward, and a head that
// is tied to the word table or has its own table. Qwen3 adds norms of queries and keys, Mistral a window of keys.
// GPT-2 has its own blocks (models/decoder/gpt2_block.h).
#pragma once

#include "models/decoder/decoder_spec.h"

namespace comera::models {

// `spec` must pass check(). Weights are unbound. `dtype` is the activation dtype of the backend that will compute.
//
// A batch has input_ids, samples and lengths, and for packed documents position_ids and key_begin. It has `targets` for
// a loss, or `logit_rows` (i32 [P], rows in [0, B*T)) for logits. With a cache it also has key_end and cache_rows, all
// in units of cache rows.
std::unique_ptr<layers::Model> make_decoder(const DecoderSpec& spec, DType dtype);

}  // namespace comera::models
