#include "lib/io/gguf/gguf_settings.h"

#include <algorithm>
#include <cmath>

#include "lib/core/error.h"
#include "lib/core/terminal/log.h"
#include "lib/io/gguf/gguf_rope.h"
#include "lib/io/gguf/gguf_tokenizer.h"

namespace comera::io {
namespace {

// Keys that the reader uses, or that change no answer of such a model.
constexpr std::string_view free_keys[] = {"attention.head_count",
                                          "attention.head_count_kv",
                                          "attention.layer_norm_epsilon",  // of a norm that these models lack
                                          "attention.layer_norm_rms_epsilon",
                                          "block_count",
                                          "context_length",
                                          "embedding_length",
                                          "feed_forward_length",
                                          "pooling_type",  // of programs that make one vector of a text
                                          "rope.freq_base",
                                          "rope.scale_linear",
                                          "rope.scaling.factor",
                                          "rope.scaling.finetuned",
                                          "rope.scaling.original_context_length",
                                          "rope.scaling.type",
                                          "tensor_data_layout",  // llama.cpp has one layout for each architecture
                                          "vocab_size"};
// Settings of experts; `expert_count` tells whether there are any.
constexpr std::string_view expert_keys = "expert_";

struct FixedNumber {
  std::string_view name;
  double value;
  double also = value;  // llama.cpp's number for "not set"
};
constexpr FixedNumber fixed_numbers[] = {{"attention.clamp_kqv", 0},
                                         {"attention.max_alibi_bias", 0},
                                         {"attention.output_scale", 1, 0},
                                         {"attention.sliding_window", 0},
                                         {"attn_logit_softcapping", 0},
                                         {"embedding_scale", 1, 0},
                                         {"expert_count", 0},
                                         {"final_logit_softcapping", 0},
                                         {"leading_dense_block_count", 0},
                                         {"logit_scale", 1, 0},
                                         {"nextn_predict_layers", 0},
                                         {"residual_scale", 1, 0},
                                         {"rope.scaling.attn_factor", 1},
                                         {"rope.scaling.yarn_attn_factor", 1},
                                         {"rope.scaling.yarn_beta_fast", 32},
                                         {"rope.scaling.yarn_beta_slow", 1},
                                         {"rope.scaling.yarn_log_multiplier", 0}};

struct FixedFlag {
  std::string_view name;
  bool value;
};
constexpr FixedFlag fixed_flags[] = {{"attention.causal", true}, {"use_parallel_residual", false}};

class Judge {
 public:
  Judge(const GgufFile& file, std::int64_t head_size) : file_(file), head_size_(static_cast<double>(head_size)) {}

  // `name`: the key without its architecture.
  void judge(const std::string& key, std::string_view name) const {
    if (std::find(std::begin(free_keys), std::end(free_keys), name) != std::end(free_keys)) return;
    for (const FixedNumber& one : fixed_numbers)
      if (one.name == name) return require(key, one.value, one.also);
    for (const FixedFlag& one : fixed_flags)
      if (one.name == name) return require(key, one.value);
    for (const char* one :
         {"attention.key_length", "attention.value_length", "attention.head_dim", "rope.dimension_count"})
      if (one == name) return require(key, head_size_, head_size_);
    if (name == "attention.scale") return require(key, 1 / std::sqrt(head_size_), 0);
    if (name == "rope.scaling.yarn_ext_factor") return require(key, is_yarn() ? 1 : 0, -1);
    if (name.starts_with(expert_keys)) return;
    fail_input(
        "{}: key {} is not known and could change what the model answers, so the file is not read; if it changes "
        "nothing, remove it: gguf-new-metadata OLD.gguf NEW.gguf --remove-metadata {} (Python package gguf)",
        file_.path(), printable(key), printable(key));
  }

 private:
  void require(const std::string& key, double value, double also) const {
    const double found = file_.real(key);
    const auto equals = [&](double wanted) { return std::abs(found - wanted) <= 1e-6 * std::abs(wanted); };
    if (!equals(value) && !equals(also))
      fail_input("{}: key {} is {}, and {} alone is read; models with another value are not supported", file_.path(),
                 key, shortest(found), shortest(value));
  }
  void require(const std::string& key, bool value) const {
    if (file_.flag(key) != value)
      fail_input("{}: key {} is {}, and {} alone is read; models with another value are not supported", file_.path(),
                 key, !value, value);
  }
  bool is_yarn() const {
    const std::string key = gguf_key(file_, "rope.scaling.type");
    return file_.has(key) && file_.text(key) == "yarn";
  }

  const GgufFile& file_;
  double head_size_;
};

}  // namespace

std::int64_t gguf_head_size(const GgufFile& file, std::int64_t width, std::int64_t heads) {
  const std::string key = gguf_key(file, "attention.key_length");
  const std::int64_t size = file.has(key) ? file.integer(key) : width / heads;
  constexpr std::int64_t most = 1 << 20;
  if (size < 1 || size > most)
    fail_input("{}: heads of {} numbers are outside 1 to {}; the file is damaged", file.path(), size, most);
  constexpr const char* name = "blk.0.attn_q.weight";
  const GgufTensor* query = file.find(name);
  if (query && query->rows() % heads == 0 && query->rows() / heads != size)
    fail_input("{}: tensor {} has {} rows, {} for each of {} heads, and {} says {}; the file is damaged", file.path(),
               name, query->rows(), query->rows() / heads, heads,
               file.has(key) ? key : fmt::format("the width {}", width), size);
  return size;
}

void require_known_architecture(const GgufFile& file) {
  const std::string& architecture = file.text("general.architecture");
  if (architecture != "llama" && architecture != "qwen2" && architecture != "qwen3")
    fail_input("{}: holds a model of architecture {}; llama, qwen2 and qwen3 are read", file.path(),
               printable(architecture));
}

void check_gguf_settings(const GgufFile& file, std::int64_t head_size) {
  const Judge judge(file, head_size);
  const std::string prefix = gguf_key(file, "");
  for (const auto& [key, value] : file.header().metadata)
    if (key.starts_with(prefix)) judge.judge(key, std::string_view(key).substr(prefix.size()));
}

}  // namespace comera::io
