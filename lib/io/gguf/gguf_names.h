// Facts that llama.cpp's GGUF files and Hugging Face's folders of llama models express in two ways: names of tensors,
// and the order of rows of q and k.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace comera::io {

// Names of tensors with ".weight" or ".bias". None: a llama model has no such tensor.
std::optional<std::string> hugging_face_name(std::string_view gguf_name);
std::optional<std::string> gguf_name(std::string_view hugging_face_name);

// llama.cpp stores the rows of q and k in pairs for its rotary embedding: row 2 j + k of a head of d rows is row
// k d / 2 + j here. Both are rows of a whole weight.
std::int64_t paired_row(std::int64_t row, std::int64_t head_rows);    // its place in a GGUF file
std::int64_t unpaired_row(std::int64_t row, std::int64_t head_rows);  // its place in a folder

// True for q and k. `name` is of either kind.
bool is_query(std::string_view name);
bool is_key(std::string_view name);
bool is_head_norm(std::string_view name);  // of q or k, which qwen3 has

}  // namespace comera::io
