#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <numeric>

#include "lib/core/error.h"
#include "lib/export/gguf/folder_of_gguf.h"
#include "lib/io/model_folder.h"
#include "tests/core/temporary_folder.h"
#include "tests/io/gguf_bytes.h"

using namespace comera;
using Catch::Matchers::Contains;
using io::GgufBytes;

namespace {

std::vector<float> ramp(std::int64_t count, float from) {
  std::vector<float> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), from);
  return values;
}

// One layer of width 8 with 2 heads of 4, one key head, and a vocabulary of 3.
GgufBytes llama() {
  GgufBytes file;
  file.text_key("general.architecture", "llama");
  for (const auto& [key, value] : {std::pair{"llama.embedding_length", 8},
                                   {"llama.feed_forward_length", 12},
                                   {"llama.block_count", 1},
                                   {"llama.attention.head_count", 2},
                                   {"llama.attention.head_count_kv", 1},
                                   {"llama.context_length", 64},
                                   {"tokenizer.ggml.eos_token_id", 2}})
    file.number_key(key, value);
  file.real_key("llama.attention.layer_norm_rms_epsilon", 1e-5f).real_key("llama.rope.freq_base", 100000);
  file.text_key("tokenizer.ggml.model", "gpt2").text_key("tokenizer.ggml.pre", "smollm");
  file.text_key("tokenizer.chat_template", "{{ messages }}");
  file.texts_key("tokenizer.ggml.tokens", {"a", "b", "<end>"}).texts_key("tokenizer.ggml.merges", {"a b"});
  file.numbers_key("tokenizer.ggml.token_type", {1, 1, 3});
  file.floats("token_embd.weight", {3, 8}, ramp(24, 0));
  file.floats("blk.0.attn_q.weight", {8, 8}, ramp(64, 100)).floats("blk.0.attn_k.weight", {4, 8}, ramp(32, 200));
  file.floats("blk.0.attn_v.weight", {4, 8}, ramp(32, 300)).floats("blk.0.attn_norm.weight", {8}, ramp(8, 400));
  return file;
}

class Opened {
 public:
  explicit Opened(const GgufBytes& bytes)
      : file_((write_file_atomic(folder_ / "m.gguf", bytes.file()), folder_ / "m.gguf")) {}
  const io::GgufFile& file() const { return file_; }
  std::string out() const { return folder_ / "out"; }

 private:
  TemporaryFolder folder_;
  io::GgufFile file_;
};

void check_refused(const GgufBytes& bytes, const std::string& why) {
  const Opened opened(bytes);
  CHECK_THROWS_WITH(exporting::write_gguf_folder(opened.file(), {opened.out()}), Contains(why));
  CHECK(!path_exists(opened.out()));
}

}  // namespace

TEST_CASE("gguf folder: names, settings and rows are those of transformers") {
  const Opened opened(llama());
  const exporting::GgufFolder made = exporting::write_gguf_folder(opened.file(), {opened.out()});
  CHECK(made.without_tokenizer.empty());
  const io::ModelFolder folder(opened.out());
  CHECK(made.bytes == folder.bytes());
  CHECK(folder.read_floats("model.embed_tokens.weight", {3, 8}) == ramp(24, 0));
  CHECK(folder.read_floats("model.layers.0.self_attn.v_proj.weight", {4, 8}) == ramp(32, 300));
  CHECK(folder.read_floats("model.layers.0.input_layernorm.weight", {8}) == ramp(8, 400));
  // Rows 0 1 2 3 of a head hold, in pairs, what transformers stores as rows 0 2 1 3.
  const auto rows = [&](const char* name, std::int64_t count) {
    std::vector<float> first;
    const std::vector<float> all = folder.read_floats(name, {count, 8});
    for (std::int64_t i = 0; i < count; ++i) first.push_back(all[static_cast<std::size_t>(8 * i)]);
    return first;
  };
  CHECK(rows("model.layers.0.self_attn.q_proj.weight", 8) ==
        std::vector<float>{100, 116, 108, 124, 132, 148, 140, 156});
  CHECK(rows("model.layers.0.self_attn.k_proj.weight", 4) == std::vector<float>{200, 216, 208, 224});
  const io::Json& config = folder.config();
  CHECK(config["rms_norm_eps"] == 1e-5);
  CHECK(config["rope_theta"] == 100000.0);
  CHECK(config["num_key_value_heads"] == 1);
  CHECK(config["head_dim"] == 4);
  CHECK(config["vocab_size"] == 3);
  CHECK(config["tie_word_embeddings"] == true);
}

TEST_CASE("gguf folder: the tokenizer is written, or the reason why not is told") {
  const Opened opened(llama());
  const io::Json tokenizer = exporting::gguf_tokenizer(opened.file());
  CHECK(tokenizer["model"]["vocab"] == io::Json{{"a", 0}, {"b", 1}, {"<end>", 2}});
  CHECK(tokenizer["model"]["merges"] == io::Json{"a b"});
  CHECK(tokenizer["added_tokens"].size() == 1);
  CHECK(tokenizer["added_tokens"][0]["content"] == "<end>");
  CHECK(tokenizer["pre_tokenizer"]["pretokenizers"][0]["type"] == "Digits");
  const io::Json config = exporting::gguf_tokenizer_config(opened.file());
  CHECK(config["eos_token"] == "<end>");
  CHECK(config["chat_template"] == "{{ messages }}");

  GgufBytes other;
  other.text_key("tokenizer.ggml.model", "llama");
  CHECK_THROWS_WITH(exporting::gguf_tokenizer(Opened(other).file()), Contains("kind \"llama\""));
  GgufBytes damaged;
  damaged.text_key("tokenizer.ggml.model", "gpt2").texts_key("tokenizer.ggml.tokens", {"a", "\xff"});
  damaged.numbers_key("tokenizer.ggml.token_type", {1, 1}).texts_key("tokenizer.ggml.merges", {});
  CHECK_THROWS_WITH(exporting::gguf_tokenizer(Opened(damaged).file()), Contains("item 1") && Contains("UTF-8"));
}

TEST_CASE("gguf folder: what a folder cannot hold is refused, and nothing is written") {
  check_refused(llama().floats("blk.0.attn_q_norm.weight", {4}, ramp(4, 0)), "attn_q_norm.weight belongs to no llama");
  check_refused(llama().floats("blk.x.attn_q.weight", {4}, ramp(4, 0)), "blk.x.attn_q.weight belongs to no llama");
  check_refused(llama().floats("rope_freqs.weight", {4}, ramp(4, 0)), "rope_freqs.weight belongs to no llama");
  check_refused(llama().number_key("llama.expert_count", 8), "llama.expert_count is 8");
  check_refused(llama().number_key("split.count", 2), "llama-gguf-split --merge");
  check_refused(llama().text_key("llama.rope.scaling.type", "longrope"), "positions are scaled (longrope)");
  check_refused(llama().floats("blk.1.attn_q.weight", {6, 8}, ramp(48, 0)), "do not divide into 2 heads");
  check_refused(GgufBytes()
                    .text_key("general.architecture", "llama")
                    .number_key("llama.embedding_length", 8)
                    .number_key("llama.attention.head_count", -1),
                "-1 heads");
  check_refused(GgufBytes().text_key("general.architecture", "gemma"), "architecture gemma");
}
