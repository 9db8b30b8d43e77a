#include <catch2/catch.hpp>
#include <numeric>

#include "lib/core/error.h"
#include "lib/io/gguf/gguf_tokenizer.h"
#include "lib/io/model_folder.h"
#include "lib/io/sentencepiece_message.h"
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
GgufBytes llama(const char* split = "smollm") {
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
  file.text_key("tokenizer.ggml.model", "gpt2");
  if (split) file.text_key("tokenizer.ggml.pre", split);
  file.text_key("tokenizer.chat_template", "{{ messages }}");
  file.texts_key("tokenizer.ggml.tokens", {"a", "b", "<end>"}).texts_key("tokenizer.ggml.merges", {"a b"});
  file.numbers_key("tokenizer.ggml.token_type", {1, 1, 3});
  file.floats("token_embd.weight", {3, 8}, ramp(24, 0));
  file.floats("blk.0.attn_q.weight", {8, 8}, ramp(64, 100)).floats("blk.0.attn_k.weight", {4, 8}, ramp(32, 200));
  file.floats("blk.0.attn_v.weight", {4, 8}, ramp(32, 300)).floats("blk.0.attn_norm.weight", {8}, ramp(8, 400));
  return file;
}

class Written {
 public:
  explicit Written(const GgufBytes& bytes) { write_file_atomic(path(), bytes.file()); }
  std::string path() const { return folder_ / "m.gguf"; }
  std::string in(const std::string& name) const { return folder_ / name; }

 private:
  TemporaryFolder folder_;
};

void check_refused(const GgufBytes& bytes, const std::string& why) {
  const Written written(bytes);
  CHECK_THROWS_WITH(io::ModelFolder(written.path()), Contains(why));
}

}  // namespace

TEST_CASE("gguf model: names, settings and rows are those of transformers") {
  const Written written(llama());
  const io::ModelFolder folder(written.path());
  CHECK(folder.path() == written.path());
  std::vector<io::TensorToWrite> tensors;
  for (const io::ModelFolder::Entry& entry : folder.entries())
    tensors.push_back({entry.tensor.name, entry.tensor.type, entry.tensor.shape});
  CHECK(folder.bytes() == io::safetensors_bytes(tensors, {{"format", "pt"}}));
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

TEST_CASE("gguf model: bytes and strips are those of the numbers, however they are stored") {
  GgufBytes bytes = llama();
  bytes.tensor({"output.weight", {3, 32}, 8, bytes.data_bytes()});  // Q8_0, three blocks with a scale of 1/2
  const std::string block = GgufBytes::raw(std::uint16_t{0x3800}) + std::string(32, '\3');
  bytes.append(block + block + block);
  const Written written(bytes);
  const io::ModelFolder folder(written.path());
  for (const io::ModelFolder::Entry& entry : folder.entries()) {
    INFO(entry.tensor.name);
    const io::StoredTensor& tensor = entry.tensor;
    const io::StoredBytes stored = folder.file_of(entry).bytes(tensor);
    REQUIRE(stored.size() == tensor.bytes());
    std::vector<float> numbers(static_cast<std::size_t>(tensor.elements()));
    io::to_floats(tensor.type, stored.span(), numbers);
    CHECK(numbers == folder.read_floats(tensor.name, tensor.shape));
    std::vector<float> last(static_cast<std::size_t>(tensor.columns()));
    folder.file_of(entry).read_strip(tensor, tensor.rows() - 1, last);
    CHECK(last == std::vector<float>(numbers.end() - tensor.columns(), numbers.end()));
    folder.file_of(entry).forget(tensor);
  }
  CHECK(folder.find("lm_head.weight")->tensor.type == io::StoredType::F32);
  CHECK(folder.read_floats("lm_head.weight", {3, 32})[95] == 1.5f);
}

TEST_CASE("gguf model: side files are its tokenizer") {
  const Written written(llama());
  make_folders(written.in("to"));
  const io::CopiedFiles copied = io::copy_side_files(written.path(), written.in("to"), io::CopyLayout::same);
  CHECK(copied.copied == std::vector<std::string>{"tokenizer.json", "tokenizer_config.json"});
  CHECK(read_file(written.in("to/tokenizer.json")) == io::gguf_tokenizer_files(io::GgufFile(written.path())).tokenizer);
  const Written without(GgufBytes().text_key("general.architecture", "llama"));
  make_folders(without.in("to"));
  CHECK(io::copy_side_files(without.path(), without.in("to"), io::CopyLayout::same).copied.empty());
  CHECK(is_empty_folder(without.in("to")));
}

TEST_CASE("gguf model: the tokenizer is read, or the reason why not is told") {
  const Written written(llama());
  const io::GgufFile file(written.path());
  const io::GgufTokenizerFiles files = io::gguf_tokenizer_files(file);
  CHECK(files.name == "tokenizer.json");
  const io::Json tokenizer = io::Json::parse(files.tokenizer);
  CHECK(tokenizer["model"]["vocab"] == io::Json{{"a", 0}, {"b", 1}, {"<end>", 2}});
  CHECK(tokenizer["model"]["merges"] == io::Json{"a b"});
  CHECK(tokenizer["added_tokens"].size() == 1);
  CHECK(tokenizer["added_tokens"][0]["content"] == "<end>");
  CHECK(tokenizer["pre_tokenizer"]["pretokenizers"][0]["type"] == "Digits");
  const io::Json config = io::Json::parse(files.config);
  CHECK(config["eos_token"] == "<end>");
  CHECK(config["chat_template"] == "{{ messages }}");

  // A piece before every text: as the file wants it, else by the kind of its tokens.
  CHECK(tokenizer["post_processor"].is_null());
  const auto framed = [](const char* pre, std::optional<bool> adds) {
    GgufBytes bytes = llama(pre);
    bytes.number_key("tokenizer.ggml.bos_token_id", 1);
    if (adds) bytes.flag_key("tokenizer.ggml.add_bos_token", *adds);
    const Written file(bytes);
    return io::Json::parse(io::gguf_tokenizer_files(io::GgufFile(file.path())).tokenizer)["post_processor"];
  };
  for (const io::Json& frame : {framed("smollm", true), framed("llama-bpe", {}), framed("llama-bpe", true)}) {
    CHECK(frame["type"] == "TemplateProcessing");
    CHECK(frame["single"][0]["SpecialToken"]["id"] == "b");
    CHECK(frame["special_tokens"]["b"]["ids"][0] == 1);
  }
  for (const io::Json& frame : {framed("smollm", {}), framed("smollm", false), framed("llama-bpe", false)})
    CHECK(frame.is_null());

  const auto refused_tokenizer = [](const GgufBytes& bytes) {
    io::gguf_tokenizer_files(io::GgufFile(Written(bytes).path()));
  };
  CHECK_THROWS_WITH(refused_tokenizer(llama("default")), Contains("key tokenizer.ggml.pre is \"default\"") &&
                                                             Contains("gpt-2, smollm") && Contains("--tokenizer"));
  CHECK_THROWS_WITH(refused_tokenizer(llama(nullptr)),
                    Contains("key tokenizer.ggml.pre is missing") && Contains("--tokenizer"));

  CHECK_THROWS_WITH(refused_tokenizer(llama().flag_key("tokenizer.ggml.add_eos_token", true)),
                    Contains("key tokenizer.ggml.add_eos_token is true"));

  GgufBytes other;
  other.text_key("tokenizer.ggml.model", "t5");
  CHECK_THROWS_WITH(io::gguf_tokenizer_files(io::GgufFile(Written(other).path())), Contains("kind \"t5\""));
  GgufBytes damaged;
  damaged.text_key("tokenizer.ggml.model", "gpt2").texts_key("tokenizer.ggml.tokens", {"a", "\xff"});
  damaged.numbers_key("tokenizer.ggml.token_type", {1, 1}).texts_key("tokenizer.ggml.merges", {});
  CHECK_THROWS_WITH(io::gguf_tokenizer_files(io::GgufFile(Written(damaged).path())),
                    Contains("item 1") && Contains("UTF-8"));
}

TEST_CASE("gguf model: a SentencePiece tokenizer is one of Hugging Face") {
  const auto written = [](const std::vector<float>& scores, const std::vector<std::int32_t>& types) {
    GgufBytes file;
    file.text_key("general.architecture", "llama").number_key("llama.context_length", 16);
    file.text_key("tokenizer.ggml.model", "llama").flag_key("tokenizer.ggml.add_space_prefix", false);
    file.texts_key("tokenizer.ggml.tokens", {"<unk>", "<begin>", "</s>", "a", "b", "ab"});
    file.reals_key("tokenizer.ggml.scores", scores).numbers_key("tokenizer.ggml.token_type", types);
    return file.flag_key("tokenizer.ggml.add_eos_token", false);
  };
  const Written sound(written({0, 0, 0, -2, -2, -1}, {2, 3, 3, 1, 1, 1}));
  const io::GgufTokenizerFiles files = io::gguf_tokenizer_files(io::GgufFile(sound.path()));
  CHECK(files.name == "tokenizer.model");
  const io::SentencePieceFacts facts = io::read_sentencepiece_facts(files.tokenizer, "the tokenizer");
  CHECK(facts.merges_by_score);
  CHECK_FALSE(facts.adds_blank);
  CHECK((facts.begin == "<begin>" && facts.end == "</s>" && facts.charsmap.empty()));
  REQUIRE(facts.pieces.size() == 6);
  CHECK(
      (facts.pieces[5].text == "ab" && facts.pieces[5].score == -1 && facts.pieces[1].type == io::PieceType::control));
  const io::Json config = io::Json::parse(files.config);
  CHECK(config["tokenizer_class"] == "LlamaTokenizer");
  CHECK(config["add_eos_token"] == false);
  make_folders(sound.in("to"));
  CHECK(io::copy_side_files(sound.path(), sound.in("to"), io::CopyLayout::same).copied ==
        std::vector<std::string>{"tokenizer.model", "tokenizer_config.json"});

  const auto refused = [](const GgufBytes& bytes) { io::gguf_tokenizer_files(io::GgufFile(Written(bytes).path())); };
  CHECK_THROWS_WITH(refused(written({0, 0}, {2, 3, 3, 1, 1, 1})), Contains("6 tokens have 2 scores"));
  CHECK_THROWS_WITH(refused(written({0, 0, 0, 0, 0, 0}, {2, 3, 3, 1, 1, 9})), Contains("token 5 is of type 9"));
}

TEST_CASE("gguf model: what a folder cannot hold is refused") {
  check_refused(llama().floats("blk.0.attn_q_norm.weight", {4}, ramp(4, 0)), "attn_q_norm.weight belongs to no llama");
  check_refused(llama().floats("blk.x.attn_q.weight", {4}, ramp(4, 0)), "blk.x.attn_q.weight belongs to no llama");
  check_refused(llama().floats("rope_freqs.weight", {4}, ramp(4, 0)), "rope_freqs.weight has 4 numbers");
  check_refused(llama().number_key("llama.expert_count", 8), "llama.expert_count is 8");
  check_refused(llama().floats("blk.0.ffn_up.weight", {2, 2, 2}, ramp(8, 0)), "has 3 dimensions");
  check_refused(llama().text_key("llama.rope.scaling.type", "longrope"), "positions are scaled (longrope)");
  check_refused(llama().floats("blk.1.attn_q.weight", {6, 8}, ramp(48, 0)), "do not divide into 2 heads");
  check_refused(GgufBytes()
                    .text_key("general.architecture", "llama")
                    .number_key("llama.embedding_length", 8)
                    .number_key("llama.attention.head_count", -1),
                "-1 heads");
  check_refused(GgufBytes().text_key("general.architecture", "gemma"), "architecture gemma");
}
