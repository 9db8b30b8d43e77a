#include "lib/io/gguf/gguf_model.h"

#include <algorithm>
#include <map>

#include "lib/core/error.h"
#include "lib/core/terminal/log.h"
#include "lib/io/gguf/gguf_names.h"
#include "lib/io/gguf/gguf_rope.h"
#include "lib/io/gguf/gguf_settings.h"
#include "lib/io/gguf/gguf_tokenizer.h"
#include "lib/io/safetensors.h"

namespace comera::io {
namespace {

bool is_llama(const GgufFile& file) { return file.text("general.architecture") == "llama"; }
bool is_qwen3(const GgufFile& file) { return file.text("general.architecture") == "qwen3"; }

using Source = GgufWeights::Source;

class Names {
 public:
  explicit Names(const GgufFile& file)
      : file_(file), heads_(file.integer(gguf_key(file, "attention.head_count"))), key_heads_(heads_) {
    if (file.has(gguf_key(file, "attention.head_count_kv")))
      key_heads_ = file.integer(gguf_key(file, "attention.head_count_kv"));
    constexpr std::int64_t most = 1 << 20;
    if (std::min(heads_, key_heads_) < 1 || std::max(heads_, key_heads_) > most)
      fail_input("{}: {} heads and {} key heads are outside 1 to {}; the file is damaged", file.path(), heads_,
                 key_heads_, most);
  }

  std::map<std::string, Source> sources() const {
    std::map<std::string, Source> found;
    for (const GgufTensor& tensor : file_.tensors()) {
      if (tensor.name == rope_divisors_name) continue;  // part of the configuration
      const auto [name, source] = source_of(tensor);
      if (!found.emplace(name, source).second)
        fail_input("{}: tensor {} has the same meaning as another one", file_.path(), printable(tensor.name));
    }
    return found;
  }

 private:
  [[noreturn]] void fail_unknown(const GgufTensor& tensor) const {
    fail_input("{}: tensor {} belongs to no llama model that transformers loads", file_.path(), printable(tensor.name));
  }

  std::pair<std::string, Source> source_of(const GgufTensor& tensor) const {
    const auto name = hugging_face_name(tensor.name);
    if (!name || (is_head_norm(tensor.name) && !is_qwen3(file_))) fail_unknown(tensor);
    const std::int64_t heads = !is_llama(file_)        ? 0  // llama.cpp rotates halves of other families, not pairs
                               : is_query(tensor.name) ? heads_
                               : is_key(tensor.name)   ? key_heads_
                                                       : 0;
    if (tensor.shape.size() > 2)
      fail_input("{}: tensor {} has {} dimensions; such models are not read", file_.path(), printable(tensor.name),
                 tensor.shape.size());
    const std::int64_t rows = tensor.shape.empty() ? 1 : tensor.shape[0];
    if (heads > 0 && rows % (2 * heads) != 0)
      fail_input("{}: tensor {}: {} rows do not divide into {} heads of an even size", file_.path(),
                 printable(tensor.name), rows, heads);
    return {*name, {&tensor, heads}};
  }

  const GgufFile& file_;
  std::int64_t heads_, key_heads_;
};

StoredType type_of(GgufType type) {
  if (type == GgufType::F16) return StoredType::F16;
  return type == GgufType::BF16 ? StoredType::BF16 : StoredType::F32;
}

}  // namespace

Json gguf_config(const GgufFile& file) {
  require_known_architecture(file);
  const std::int64_t width = file.integer(gguf_key(file, "embedding_length")),
                     heads = file.integer(gguf_key(file, "attention.head_count"));
  const auto optional = [&](const std::string& key, std::int64_t otherwise) {
    return file.has(key) ? file.integer(key) : otherwise;
  };
  if (heads < 1 || width < 1) fail_input("{}: {} heads of a width of {} are no model", file.path(), heads, width);
  const std::int64_t head_size = gguf_head_size(file, width, heads);
  check_gguf_settings(file, head_size);
  const GgufTensor* table = file.find("token_embd.weight");
  if (!table || table->shape.size() != 2) fail_input("{}: tensor token_embd.weight is missing", file.path());
  Json config{{"architectures",
               {is_llama(file)   ? "LlamaForCausalLM"
                : is_qwen3(file) ? "Qwen3ForCausalLM"
                                 : "Qwen2ForCausalLM"}},
              {"model_type", file.text("general.architecture")},
              {"hidden_size", width},
              {"intermediate_size", file.integer(gguf_key(file, "feed_forward_length"))},
              {"num_hidden_layers", file.integer(gguf_key(file, "block_count"))},
              {"num_attention_heads", heads},
              {"num_key_value_heads", optional(gguf_key(file, "attention.head_count_kv"), heads)},
              {"head_dim", head_size},
              {"max_position_embeddings", file.integer(gguf_key(file, "context_length"))},
              {"rms_norm_eps", shortest(file.real(gguf_key(file, "attention.layer_norm_rms_epsilon")))},
              {"rope_theta", gguf_theta(file)},
              {"hidden_act", "silu"},
              {"tie_word_embeddings", file.find("output.weight") == nullptr},
              {"vocab_size", table->shape[0]}};
  if (is_llama(file) || is_qwen3(file)) config["attention_bias"] = file.find("blk.0.attn_q.bias") != nullptr;
  if (is_llama(file)) config["mlp_bias"] = file.find("blk.0.ffn_up.bias") != nullptr;
  if (Json scaling = gguf_rope_scaling(file, head_size); !scaling.empty()) config["rope_scaling"] = std::move(scaling);
  for (const char* name : {"bos", "eos"})
    if (file.has(gguf_token_key(name))) config[fmt::format("{}_token_id", name)] = file.integer(gguf_token_key(name));
  return config;
}

void check_holds_tensors(const GgufFile& file) {
  if (file.tensors().empty())
    fail_input("{}: holds no tensors, so it is no model; a file with a vocabulary alone serves as --tokenizer",
               file.path());
}

GgufWeights::GgufWeights(std::shared_ptr<const GgufFile> file) : file_(std::move(file)) {
  check_holds_tensors(*file_);
  sources_ = Names(*file_).sources();
  for (const auto& [name, source] : sources_) {
    const StoredType type = type_of(source.tensor->type);
    const FileShape& shape = source.tensor->shape;
    tensors_.push_back({name, type, shape, 0, static_cast<std::uint64_t>(elements_of(shape)) * size_of(type)});
  }
}

std::uint64_t GgufWeights::file_bytes() const {
  std::vector<TensorToWrite> tensors;
  for (const StoredTensor& tensor : tensors_) tensors.push_back({tensor.name, tensor.type, tensor.shape});
  return safetensors_bytes(std::move(tensors), {{"format", "pt"}});
}

StoredBytes GgufWeights::bytes(const StoredTensor& tensor) const {
  const Source& source = sources_.at(tensor.name);
  if (source.paired_heads == 0 && !is_quantised(source.tensor->type)) return StoredBytes(file_->bytes(*source.tensor));
  std::vector<std::byte> made(tensor.bytes());
  std::vector<float> row(static_cast<std::size_t>(tensor.columns()));
  const std::size_t row_bytes = row.size() * size_of(tensor.type);
  for (std::int64_t i = 0; i < tensor.rows(); ++i) {
    read_strip(tensor, i, row);
    from_floats(row, tensor.type, std::span(made).subspan(static_cast<std::size_t>(i) * row_bytes, row_bytes));
  }
  return StoredBytes(std::move(made));
}

void GgufWeights::read_strip(const StoredTensor& tensor, std::int64_t first, std::span<float> out) const {
  const Source& source = sources_.at(tensor.name);
  const bool vector = tensor.shape.size() < 2;
  const std::int64_t heads = source.paired_heads, columns = tensor.columns(),
                     size = heads > 0 ? (vector ? columns : tensor.rows()) / heads : 0;  // of a head
  const auto at = [&](std::int64_t row) { return size == 0 ? row : paired_row(row, size); };
  if (vector) {
    std::vector<float> all(out.size());
    file_->read_row(*source.tensor, 0, all);
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = all[static_cast<std::size_t>(at(static_cast<std::int64_t>(i)))];
    return;
  }
  for (std::size_t r = 0; r < out.size() / static_cast<std::size_t>(columns); ++r)
    file_->read_row(*source.tensor, at(first + static_cast<std::int64_t>(r)),
                    out.subspan(r * static_cast<std::size_t>(columns), static_cast<std::size_t>(columns)));
}

void GgufWeights::forget(const StoredTensor& tensor) const { file_->forget(*sources_.at(tensor.name).tensor); }

}  // namespace comera::io
