#include "lib/io/gguf/gguf_settings.h"

#include <catch2/catch.hpp>

#include "lib/core/error.h"
#include "lib/io/gguf/gguf_model.h"
#include "tests/core/temporary_folder.h"
#include "tests/io/gguf_bytes.h"

using namespace comera;
using Catch::Matchers::Contains;
using io::GgufBytes;

namespace {

// 2 heads of 4.
GgufBytes with_settings(const std::string& architecture = "llama") {
  GgufBytes file;
  file.text_key("general.architecture", architecture).floats("token_embd.weight", {1, 8}, std::vector<float>(8));
  for (const auto& [name, value] : {std::pair{"embedding_length", 8},
                                    {"feed_forward_length", 12},
                                    {"block_count", 1},
                                    {"attention.head_count", 2},
                                    {"context_length", 64}})
    file.number_key(architecture + "." + name, value);
  return file.real_key(architecture + ".attention.layer_norm_rms_epsilon", 1e-5f);
}

io::Json config_of(const GgufBytes& bytes) {
  const TemporaryFolder folder;
  write_file_atomic(folder / "m.gguf", bytes.file());
  return io::gguf_config(io::GgufFile(folder / "m.gguf"));
}

void refused(const GgufBytes& bytes, const std::string& why) {
  INFO(why);
  CHECK_THROWS_WITH(config_of(bytes), Contains("m.gguf") && Contains(why));
}

}  // namespace

TEST_CASE("gguf settings: keys with the values of every model that is read, and keys that change nothing, are read") {
  GgufBytes file = with_settings();
  for (const auto& [key, value] : {std::pair{"rope.dimension_count", 4},
                                   {"attention.key_length", 4},
                                   {"attention.value_length", 4},
                                   {"attention.sliding_window", 0},
                                   {"vocab_size", 1},
                                   {"expert_count", 0},
                                   {"expert_used_count", 0},
                                   {"pooling_type", 3},
                                   {"rope.scaling.original_context_length", 64}})
    file.number_key(fmt::format("llama.{}", key), value);
  for (const auto& [key, value] : {std::pair{"attention.scale", .5f},
                                   {"logit_scale", 1.f},
                                   {"residual_scale", 0.f},
                                   {"rope.scale_linear", 1.f},
                                   {"rope.scaling.attn_factor", 1.f},
                                   {"rope.scaling.yarn_ext_factor", -1.f},
                                   {"rope.scaling.yarn_beta_fast", 32.f},
                                   {"rope.scaling.yarn_beta_slow", 1.f}})
    file.real_key(fmt::format("llama.{}", key), value);
  file.flag_key("llama.attention.causal", true).flag_key("llama.rope.scaling.finetuned", true);
  file.text_key("llama.tensor_data_layout", "Meta AI original pth");
  file.real_key("general.sampling.temp", .6f).text_key("quantize.imatrix.file", "x").number_key("mistral.unknown", 7);
  const io::Json config = config_of(file);
  CHECK(config["head_dim"] == 4);
  CHECK(!config.contains("rope_scaling"));
}

TEST_CASE("gguf settings: a key that changes the answers is refused by name") {
  for (const char* name : {"rope.dimension_count", "attention.value_length", "attention.head_dim"}) {
    const std::string key = fmt::format("llama.{}", name);
    refused(with_settings().number_key(key, 2), fmt::format("key {} is 2, and 4 alone is read", key));
  }
  for (const auto& [name, value, wanted] : {std::tuple{"attention.scale", .01f, "0.5"},
                                            {"attention.clamp_kqv", 8.f, "0"},
                                            {"attention.max_alibi_bias", 8.f, "0"},
                                            {"attn_logit_softcapping", 50.f, "0"},
                                            {"final_logit_softcapping", 30.f, "0"},
                                            {"logit_scale", 3.f, "1"},
                                            {"embedding_scale", 12.f, "1"},
                                            {"residual_scale", .25f, "1"},
                                            {"rope.scaling.attn_factor", 2.f, "1"},
                                            {"rope.scaling.yarn_attn_factor", 2.f, "1"},
                                            {"rope.scaling.yarn_ext_factor", .5f, "1"},
                                            {"rope.scaling.yarn_beta_fast", 16.f, "32"},
                                            {"rope.scaling.yarn_beta_slow", 2.f, "1"},
                                            {"rope.scaling.yarn_log_multiplier", .1f, "0"}}) {
    const std::string key = fmt::format("qwen2.{}", name);
    GgufBytes file = with_settings("qwen2");
    file.text_key("qwen2.rope.scaling.type", "yarn").real_key("qwen2.rope.scaling.factor", 4);
    refused(file.real_key(key, value), fmt::format("key {} is {}, and {} alone is read", key, value, wanted));
  }
  refused(with_settings().flag_key("llama.attention.causal", false), "key llama.attention.causal is false, and true");
  refused(with_settings().flag_key("llama.use_parallel_residual", true), "key llama.use_parallel_residual is true");
  refused(with_settings().number_key("llama.expert_count", 8), "key llama.expert_count is 8");
  refused(with_settings().number_key("llama.attention.sliding_window", 7), "llama.attention.sliding_window is 7");
  refused(with_settings().numbers_key("llama.rope.dimension_sections", {1, 1, 2}),
          "key llama.rope.dimension_sections is not known and could change");
}

TEST_CASE("gguf settings: the head size is that of the weights") {
  const auto file = [] { return with_settings().floats("blk.0.attn_q.weight", {12, 8}, std::vector<float>(96)); };
  CHECK(config_of(file().number_key("llama.attention.key_length", 6))["head_dim"] == 6);
  refused(file().number_key("llama.attention.key_length", 8),
          "6 for each of 2 heads, and llama.attention.key_length says 8");
  refused(file(), "6 for each of 2 heads, and the width 8 says 4");
  refused(with_settings().number_key("llama.attention.key_length", 0), "heads of 0 numbers");
}
