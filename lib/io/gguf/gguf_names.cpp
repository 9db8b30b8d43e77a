#include "lib/io/gguf/gguf_names.h"

#include <charconv>

#include "lib/core/error.h"

namespace comera::io {
namespace {

struct Name {
  std::string_view gguf, hugging_face;
};
constexpr Name outer[] = {{"token_embd", "model.embed_tokens"}, {"output_norm", "model.norm"}, {"output", "lm_head"}};
constexpr Name inner[] = {{"attn_norm", "input_layernorm"},   {"ffn_norm", "post_attention_layernorm"},
                          {"attn_q", "self_attn.q_proj"},     {"attn_k", "self_attn.k_proj"},
                          {"attn_v", "self_attn.v_proj"},     {"attn_output", "self_attn.o_proj"},
                          {"ffn_gate", "mlp.gate_proj"},      {"ffn_up", "mlp.up_proj"},
                          {"ffn_down", "mlp.down_proj"},      {"attn_q_norm", "self_attn.q_norm"},
                          {"attn_k_norm", "self_attn.k_norm"}};
constexpr Name blocks{"blk.", "model.layers."};

// Translates a name from one column of the tables to the other.
std::optional<std::string> translated(std::string_view name, std::string_view Name::*from, std::string_view Name::*to) {
  const std::size_t dot = name.rfind('.');
  const std::string_view kind = dot == name.npos ? "" : name.substr(dot);
  if (kind != ".weight" && kind != ".bias") return std::nullopt;
  std::string_view part = name.substr(0, dot);
  for (const Name& one : outer)
    if (part == one.*from) return fmt::format("{}{}", one.*to, kind);
  if (!part.starts_with(blocks.*from)) return std::nullopt;
  part.remove_prefix((blocks.*from).size());
  std::int64_t layer = 0;
  const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), layer);
  if (error != std::errc() || layer < 0 || end == part.data() + part.size() || *end != '.') return std::nullopt;
  part.remove_prefix(static_cast<std::size_t>(end + 1 - part.data()));
  for (const Name& one : inner)
    if (part == one.*from) return fmt::format("{}{}.{}{}", blocks.*to, layer, one.*to, kind);
  return std::nullopt;
}

bool has_part(std::string_view name, std::string_view gguf, std::string_view hugging_face) {
  return name.find(gguf) != name.npos || name.find(hugging_face) != name.npos;
}

}  // namespace

std::optional<std::string> hugging_face_name(std::string_view gguf_name) {
  return translated(gguf_name, &Name::gguf, &Name::hugging_face);
}
std::optional<std::string> gguf_name(std::string_view hugging_face_name) {
  return translated(hugging_face_name, &Name::hugging_face, &Name::gguf);
}

std::int64_t paired_row(std::int64_t row, std::int64_t head_rows) {
  const std::int64_t in_head = row % head_rows, half = head_rows / 2;
  return row - in_head + in_head % half * 2 + in_head / half;
}
std::int64_t unpaired_row(std::int64_t row, std::int64_t head_rows) {
  const std::int64_t in_head = row % head_rows;
  return row - in_head + in_head % 2 * (head_rows / 2) + in_head / 2;
}

bool is_query(std::string_view name) { return has_part(name, ".attn_q.", ".self_attn.q_proj."); }
bool is_head_norm(std::string_view name) {
  return has_part(name, ".attn_q_norm.", ".self_attn.q_norm.") || has_part(name, ".attn_k_norm.", ".self_attn.k_norm.");
}
bool is_key(std::string_view name) { return has_part(name, ".attn_k.", ".self_attn.k_proj."); }

}  // namespace comera::io
