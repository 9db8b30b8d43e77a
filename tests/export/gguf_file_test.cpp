#include "lib/export/gguf/gguf_file.h"

#include <catch2/catch.hpp>
#include <map>
#include <random>

#include "lib/core/error.h"
#include "lib/core/half.h"
#include "lib/export/gguf/gguf_tokens.h"
#include "lib/io/gguf/gguf.h"
#include "lib/io/gguf/gguf_names.h"
#include "lib/io/gguf/gguf_splits.h"
#include "lib/io/model_folder.h"
#include "lib/io/tt_format.h"
#include "lib/quant/rounding.h"
#include "models/architecture.h"
#include "tests/core/temporary_folder.h"

using namespace comera;
using Catch::Matchers::Contains;

namespace {

constexpr std::int64_t width = 64, inner = 96, words = 20, rank = 3;

std::vector<float> random_floats(std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = normal(random);
  return values;
}

// A decoder of one layer with 2 heads of 32 and one key head. `grid` and a correction of `rank` hold q_proj, if given.
class SmallLlama {
 public:
  explicit SmallLlama(std::optional<quant::Grid> grid = {}, const io::Json& other_keys = {}) {
    io::Json config{{"model_type", "llama"},       {"hidden_size", width},     {"intermediate_size", inner},
                    {"num_hidden_layers", 1},      {"num_attention_heads", 2}, {"num_key_value_heads", 1},
                    {"vocab_size", words},         {"rms_norm_eps", 1e-5},     {"max_position_embeddings", 128},
                    {"tie_word_embeddings", true}, {"rope_theta", 10000.0},    {"bos_token_id", 1},
                    {"eos_token_id", {2, 3}},      {"hidden_act", "silu"},     {"architectures", {"LlamaForCausalLM"}}};
    floats("model.embed_tokens.weight", {words, width});
    floats("model.norm.weight", {width});
    const std::string layer = "model.layers.0.";
    for (const char* norm : {"input_layernorm", "post_attention_layernorm"}) floats(layer + norm + ".weight", {width});
    for (const char* one : {"self_attn.k_proj", "self_attn.v_proj"})
      floats(layer + one + ".weight", {width / 2, width});
    floats(layer + "self_attn.o_proj.weight", {width, width});
    for (const char* one : {"mlp.gate_proj", "mlp.up_proj"}) floats(layer + one + ".weight", {inner, width});
    floats(layer + "mlp.down_proj.weight", {width, inner});
    if (!grid) {
      floats(layer + "self_attn.q_proj.weight", {width, width});
    } else {
      io::ChainSpec chain;
      chain.name = layer + "self_attn.q_proj";
      chain.shape = {width, width};
      chain.layout = tt::tt_layout({width}, {width}, {1, rank, 1});
      chain.initial_ranks = {1, rank, 1};
      chain.folded = true;
      chain.base = grid;
      tt::Matrix weight(width, width);
      const std::vector<float> numbers = random_floats(width * width, 99);
      std::copy(numbers.begin(), numbers.end(), weight.values.begin());
      base_ = quant::round_linear(weight, *grid);
      add({chain.base_name(), io::StoredType::U8, {width, quant::line_bytes(*grid, width)}, base_.bytes.data()});
      floats(chain.core_name(0), {1, width, rank}, io::StoredType::F16);
      floats(chain.core_name(1), {rank, width, 1}, io::StoredType::F16);
      config["comera"] = io::to_json(io::ComeraBlock{{chain}, {}, {}});
    }
    if (!other_keys.is_null()) config.update(other_keys);
    if (config["model_type"] == "qwen2" || config.value("attention_bias", false))
      for (const auto& [part, rows] : {std::pair{"q", width}, {"k", width / 2}, {"v", width / 2}})
        floats(fmt::format("{}self_attn.{}_proj.bias", layer, part), {rows});
    if (config.value("attention_bias", false)) floats(layer + "self_attn.o_proj.bias", {width});
    if (config["model_type"] == "qwen3")
      for (const char* part : {"q", "k"}) floats(fmt::format("{}self_attn.{}_norm.weight", layer, part), {width / 2});
    write_file_atomic(folder_ / "config.json", io::json_text(config));
  }

  io::ModelFolder open() {
    io::write_safetensors(folder_ / "model.safetensors", tensors_, io::weights_metadata());
    return io::ModelFolder(folder_.path());
  }
  // The table of words on a grid, with the exact rows 3 and 7.
  void put_words_on(quant::Grid grid) {
    io::ChainSpec chain;
    chain.name = "model.embed_tokens";
    chain.shape = {words, width};
    chain.layout = tt::ttm_layout({words, 1}, {1, width}, {1, 0, 1});
    chain.layout.exact_rows = 2;
    chain.initial_ranks = {1, 1, 1};
    chain.base = grid;
    tt::Matrix table(words, width);
    const std::vector<float>& numbers = values_.at(chain.weight_name());
    std::copy(numbers.begin(), numbers.end(), table.values.begin());
    base_ = quant::round_table(table, grid);
    std::erase_if(tensors_, [&](const io::TensorToWrite& tensor) { return tensor.name == chain.weight_name(); });
    add({chain.base_name(), io::StoredType::U8, {words, quant::line_bytes(grid, width)}, base_.bytes.data()});
    static const std::vector<std::int32_t> ids{3, 7};
    add({chain.exact_ids_name(), io::StoredType::I32, {2}, ids.data()});
    floats(chain.exact_rows_name(), {2, width}, io::StoredType::F16);
    io::Json config = io::parse_json(read_file(folder_ / "config.json"), "config.json");
    config["comera"] = io::to_json(io::ComeraBlock{{chain}, {}, {}});
    write_file_atomic(folder_ / "config.json", io::json_text(config));
  }
  std::vector<float>& values_of(const std::string& name) { return values_.at(name); }
  void file(const char* name, const std::string& text) { write_file_atomic(folder_ / name, text); }
  std::string operator/(const char* name) const { return folder_ / name; }

 private:
  void add(io::TensorToWrite tensor) { tensors_.push_back(std::move(tensor)); }
  void floats(const std::string& name, const io::FileShape& shape, io::StoredType type = io::StoredType::F32) {
    std::vector<float>& values = values_[name];
    values = random_floats(io::elements_of(shape), static_cast<unsigned>(values_.size()));
    add({name, type, shape, values.data(), true});
  }

  TemporaryFolder folder_;
  std::map<std::string, std::vector<float>> values_;
  quant::Quantised base_;
  std::vector<io::TensorToWrite> tensors_;
};

models::DecoderSpec spec_of(const io::ModelFolder& folder) {
  return std::get<models::DecoderSpec>(models::spec_from_folder(folder.path()));
}

// [rows x columns]
tt::Matrix matrix_of(const io::GgufFile& file, const std::string& name) {
  const io::GgufTensor* tensor = file.find(name);
  REQUIRE(tensor);
  tt::Matrix matrix(tensor->rows(), tensor->columns());
  std::vector<float> row(static_cast<std::size_t>(tensor->columns()));
  for (std::int64_t r = 0; r < matrix.rows; ++r) {
    file.read_row(*tensor, r, row);
    std::copy(row.begin(), row.end(), matrix.row(r));
  }
  return matrix;
}

}  // namespace

TEST_CASE("gguf file: base and adapter are the weight, in rows of pairs") {
  for (const quant::Grid grid : quant::all_grids) {
    SmallLlama model(grid);
    const io::ModelFolder folder = model.open();
    const exporting::Target target{model / "m.gguf"};
    const exporting::GgufWrote wrote = exporting::write_gguf_file(folder, spec_of(folder), {}, target);
    CHECK(wrote.adapter == model / "m.lora.gguf");
    CHECK(wrote.bytes == file_size(target.path));
    CHECK(wrote.bytes_adapter == file_size(wrote.adapter));
    CHECK(wrote.widened.empty() == (quant::bits_of(grid) >= 4 && quant::group_of(grid) == quant::block));
    const io::GgufFile base(target.path), adapter(wrote.adapter);
    CHECK(adapter.text("adapter.type") == "lora");
    CHECK(adapter.real("adapter.lora.alpha") == 0);
    const tt::Matrix q = matrix_of(base, "blk.0.attn_q.weight");
    const tt::Matrix a = matrix_of(adapter, "blk.0.attn_q.weight.lora_a"),
                     b = matrix_of(adapter, "blk.0.attn_q.weight.lora_b");
    REQUIRE((a.rows == rank && b.columns == rank));
    const io::ComeraBlock block = *io::parse_comera_block(folder.config(), "");
    const tt::FloatMatrix weight = io::read_matrix(folder, block.chains[0], {});  // [in x out]
    double worst = 0;
    for (std::int64_t row = 0; row < width; ++row)
      for (std::int64_t column = 0; column < width; ++column) {
        double sum = q(row, column);
        for (std::int64_t k = 0; k < rank; ++k) sum += b(row, k) * a(k, column);
        worst = std::max(worst, std::abs(sum - weight(column, io::unpaired_row(row, 32))));
      }
    CHECK(worst < 1e-5);  // sums of float products of about 3
    // Merged, the same weight is dense and there is no adapter.
    const exporting::Target merged{model / "merged.gguf"};
    const exporting::GgufWrote dense = exporting::write_gguf_file(folder, spec_of(folder), {.merged = true}, merged);
    CHECK(dense.adapter.empty());
    CHECK(dense.dense == std::vector<std::string>{"model.layers.0.self_attn.q_proj"});
    const tt::Matrix whole = matrix_of(io::GgufFile(merged.path), "blk.0.attn_q.weight");
    CHECK(whole(1, 5) == weight(5, 16));
  }
}

TEST_CASE("gguf file: a table on a grid with exact rows is dense") {
  SmallLlama model;
  model.put_words_on(quant::Grid::q4_0);
  const io::ModelFolder folder = model.open();
  const exporting::Target target{model / "m.gguf"};
  const exporting::GgufWrote wrote = exporting::write_gguf_file(folder, spec_of(folder), {}, target);
  CHECK(wrote.dense == std::vector<std::string>{"model.embed_tokens"});
  const tt::Matrix table = matrix_of(io::GgufFile(target.path), "token_embd.weight");
  const io::ComeraBlock block = *io::parse_comera_block(folder.config(), "");
  CHECK(table.values == tt::to_double(io::read_matrix(folder, block.chains[0], {})).values);
  CHECK(table(7, 5) == half_to_float(float_to_half(model.values_of("model.embed_tokens.exact.rows")[width + 5])));
}

TEST_CASE("gguf file: settings are those of the model") {
  SmallLlama model;
  const io::ModelFolder folder = model.open();
  const exporting::Target target{model / "m.gguf"};
  const exporting::GgufWrote wrote = exporting::write_gguf_file(folder, spec_of(folder), {}, target);
  CHECK_THAT(wrote.without_tokenizer, Contains("no tokenizer.json and no tokenizer.model"));
  const io::GgufFile file(target.path);
  CHECK(file.integer("llama.vocab_size") == words);
  CHECK(file.integer("llama.attention.head_count_kv") == 1);
  CHECK(file.integer("llama.rope.dimension_count") == 32);
  CHECK(file.integer("llama.context_length") == 128);
  CHECK(file.real("llama.attention.layer_norm_rms_epsilon") == static_cast<double>(1e-5f));
  CHECK(file.text("tokenizer.ggml.model") == "no_vocab");
  CHECK(file.find("output.weight") == nullptr);
  CHECK_THROWS_WITH(exporting::write_gguf_file(folder, spec_of(folder), {}, target), Contains("exists"));
}

TEST_CASE("gguf file: biases of q and k are in rows of pairs as their weights") {
  SmallLlama model({}, {{"attention_bias", true}});
  const io::ModelFolder folder = model.open();
  const exporting::Target target{model / "m.gguf"};
  exporting::write_gguf_file(folder, spec_of(folder), {}, target);
  const io::GgufFile file(target.path);
  for (const auto& [part, rows, pairs] :
       {std::tuple{"q", width, true}, {"k", width / 2, true}, {"v", width / 2, false}}) {
    INFO(part);
    const tt::Matrix made = matrix_of(file, fmt::format("blk.0.attn_{}.bias", part));
    const std::vector<float> bias =
        folder.read_floats(fmt::format("model.layers.0.self_attn.{}_proj.bias", part), {rows});
    for (std::int64_t row = 0; row < rows; ++row)
      CHECK(made(0, row) ==
            static_cast<double>(bias[static_cast<std::size_t>(pairs ? io::unpaired_row(row, 32) : row)]));
  }
  // The way back has the same numbers.
  const io::ModelFolder back(target.path);
  for (const io::ModelFolder::Entry& entry : folder.entries())
    CHECK(back.read_floats(entry.tensor.name, entry.tensor.shape) ==
          folder.read_floats(entry.tensor.name, entry.tensor.shape));
  CHECK(spec_of(back).qkv_bias);
}

TEST_CASE("gguf file: qwen2 has its own keys, biases and no pairs of rows") {
  SmallLlama model({}, {{"model_type", "qwen2"}, {"architectures", {"Qwen2ForCausalLM"}}});
  const io::ModelFolder folder = model.open();
  const exporting::Target target{model / "m.gguf"};
  exporting::write_gguf_file(folder, spec_of(folder), {}, target);
  const io::GgufFile file(target.path);
  CHECK(file.text("general.architecture") == "qwen2");
  CHECK(file.integer("qwen2.attention.head_count") == 2);
  const std::string name = "model.layers.0.self_attn.q_proj.weight";
  CHECK(matrix_of(file, "blk.0.attn_q.weight").row(1)[0] == folder.read_floats(name, {width, width})[width]);
  // The way back has the same tensors and settings.
  const io::ModelFolder back(target.path);
  CHECK(back.entries().size() == folder.entries().size());
  for (const io::ModelFolder::Entry& entry : folder.entries())
    CHECK(back.read_floats(entry.tensor.name, entry.tensor.shape) ==
          folder.read_floats(entry.tensor.name, entry.tensor.shape));
  CHECK(spec_of(back).qkv_bias);
  CHECK(spec_of(back).family == models::DecoderFamily::qwen2);
}

TEST_CASE("gguf file: qwen3 has norms of heads and no pairs of rows") {
  SmallLlama model({}, {{"model_type", "qwen3"}, {"architectures", {"Qwen3ForCausalLM"}}, {"head_dim", 32}});
  const io::ModelFolder folder = model.open();
  const exporting::Target target{model / "m.gguf"};
  exporting::write_gguf_file(folder, spec_of(folder), {}, target);
  const io::GgufFile file(target.path);
  CHECK(file.text("general.architecture") == "qwen3");
  CHECK(file.integer("qwen3.attention.key_length") == 32);
  REQUIRE(file.find("blk.0.attn_k_norm.weight"));
  const std::string name = "model.layers.0.self_attn.q_proj.weight";
  CHECK(matrix_of(file, "blk.0.attn_q.weight").row(1)[0] == folder.read_floats(name, {width, width})[width]);
  // The way back has the same tensors and settings.
  const io::ModelFolder back(target.path);
  CHECK(back.entries().size() == folder.entries().size());
  for (const io::ModelFolder::Entry& entry : folder.entries())
    CHECK(back.read_floats(entry.tensor.name, entry.tensor.shape) ==
          folder.read_floats(entry.tensor.name, entry.tensor.shape));
  CHECK(spec_of(back).head_norms);
  CHECK((spec_of(back).head_size == 32 && !spec_of(back).qkv_bias));
}

TEST_CASE(
    "gguf file: a window of keys is refused, a missing tensor too; norms of heads of other families are left out") {
  SmallLlama near({}, {{"model_type", "mistral"}, {"architectures", {"MistralForCausalLM"}}, {"sliding_window", 5}});
  const io::ModelFolder folder = near.open();
  CHECK_THROWS_WITH(exporting::write_gguf_file(folder, spec_of(folder), {}, {near / "m.gguf"}),
                    Contains("sliding_window is 5"));
  SmallLlama normed({}, {{"model_type", "qwen3"}, {"architectures", {"Qwen3ForCausalLM"}}, {"head_dim", 32}});
  const io::ModelFolder norms = normed.open();
  models::DecoderSpec spec = spec_of(norms);
  spec.head_norms = false;
  CHECK(exporting::write_gguf_file(norms, spec, {}, {normed / "m.gguf"}).unused ==
        std::vector<std::string>{"model.layers.0.self_attn.k_norm.weight", "model.layers.0.self_attn.q_norm.weight"});
  CHECK_FALSE(io::GgufFile(normed / "m.gguf").find("blk.0.attn_k_norm.weight"));
  spec.layers = 2;
  CHECK_THROWS_WITH(exporting::write_gguf_file(norms, spec, {}, {normed / "n.gguf"}),
                    Contains("tensor model.layers.1.") && Contains("is missing"));
}

TEST_CASE("gguf file: scaled positions") {
  const auto write = [](SmallLlama& model) {
    const io::ModelFolder folder = model.open();
    exporting::write_gguf_file(folder, spec_of(folder), {}, {model / "m.gguf"});
    return io::GgufFile(model / "m.gguf");
  };
  for (const char* kind : {"linear", "yarn"}) {
    INFO(kind);
    SmallLlama model({}, {{"rope_scaling", {{"rope_type", kind}, {"factor", 4.0}}}});
    const io::GgufFile file = write(model);
    CHECK(file.text("llama.rope.scaling.type") == kind);
    CHECK(file.real("llama.rope.scaling.factor") == 4);
    CHECK(io::ModelFolder(file.path()).config()["rope_scaling"]["rope_type"] == kind);
  }
  SmallLlama model({}, {{"rope_scaling",
                         {{"rope_type", "llama3"},
                          {"factor", 8.0},
                          {"low_freq_factor", 1.0},
                          {"high_freq_factor", 4.0},
                          {"original_max_position_embeddings", 64}}}});
  const tt::Matrix divisors = matrix_of(write(model), "rope_freqs.weight");
  CHECK(divisors.columns == 16);
  CHECK(divisors(0, 0) == 1);   // turns 64 / 2 pi > 4 times
  CHECK(divisors(0, 15) == 8);  // does not turn once
  // The way back turns alike, with other constants too.
  for (const auto& [factor, low, high, context] :
       {std::tuple{8.0, 1.0, 4.0, 8192}, {32.0, 1.0, 4.0, 64}, {5.5, 2.0, 7.0, 1000}, {8.0, 1.0, 1.5, 512}}) {
    SmallLlama scaled({}, {{"rope_scaling",
                            {{"rope_type", "llama3"},
                             {"factor", factor},
                             {"low_freq_factor", low},
                             {"high_freq_factor", high},
                             {"original_max_position_embeddings", context}}}});
    write(scaled);
    const auto turns = [](const io::ModelFolder& folder) {
      const models::DecoderSpec spec = spec_of(folder);
      CHECK(spec.scaling.kind == models::RopeKind::llama3);
      const auto angles = models::rotary_angles(spec.theta, spec.head_size, spec.scaling);
      std::vector<double> all;
      for (std::int64_t i = 0; i < 16; ++i) all.push_back(models::frequency_of(angles, i, 32));
      return all;
    };
    const std::vector<double> there = turns(scaled.open()), back = turns(io::ModelFolder(scaled / "m.gguf"));
    // Divisors in float32, four times as inexact on a ramp that is solved from two of them.
    for (std::size_t i = 0; i < there.size(); ++i) CHECK(back[i] == Approx(there[i]).epsilon(4 * 0x1p-24 * factor));
  }
  SmallLlama qwen({}, {{"model_type", "qwen2"},
                       {"architectures", {"Qwen2ForCausalLM"}},
                       {"rope_scaling",
                        {{"rope_type", "llama3"},
                         {"factor", 8.0},
                         {"low_freq_factor", 1.0},
                         {"high_freq_factor", 4.0},
                         {"original_max_position_embeddings", 64}}}});
  CHECK_THROWS_WITH(write(qwen), Contains("kind llama3") && Contains("for llama models alone"));
  SmallLlama other({}, {{"rope_scaling", {{"rope_type", "yarn"}, {"factor", 4.0}, {"beta_fast", 16.0}}}});
  CHECK_THROWS_WITH(write(other), Contains("yarn positions have their own beta_fast"));
}

TEST_CASE("gguf file: rows of pairs and back") {
  for (std::int64_t row = 0; row < 24; ++row) {
    CHECK(io::unpaired_row(io::paired_row(row, 8), 8) == row);
    CHECK(io::paired_row(row, 8) / 8 == row / 8);
  }
  CHECK(io::paired_row(4, 8) == 1);
}

TEST_CASE("gguf file: names and back") {
  for (const char* name : {"model.embed_tokens.weight", "lm_head.weight", "model.layers.12.mlp.up_proj.weight",
                           "model.layers.0.self_attn.q_proj.bias"})
    CHECK(io::hugging_face_name(*io::gguf_name(name)) == std::string(name));
  for (const char* name : {"model.layers.x.mlp.up_proj.weight", "model.layers.1.mlp.up_proj", "other.weight", ""})
    CHECK(!io::gguf_name(name));
}

TEST_CASE("gguf file: a byte-level tokenizer") {
  SmallLlama model;
  const io::ModelFolder folder = model.open();
  io::Json tokenizer{{"version", "1.0"},
                     {"added_tokens",
                      {{{"id", 3},
                        {"content", "<end>"},
                        {"single_word", false},
                        {"lstrip", false},
                        {"rstrip", false},
                        {"normalized", false},
                        {"special", true}}}},
                     {"normalizer", nullptr},
                     {"pre_tokenizer", io::split_named("smollm")->pre_tokenizer},
                     {"post_processor", nullptr},
                     {"decoder", {{"type", "ByteLevel"}}},
                     {"model", {{"type", "BPE"}, {"vocab", {{"a", 0}, {"b", 1}, {"ab", 2}}}, {"merges", {"a b"}}}}};
  model.file("tokenizer.json", io::json_text(tokenizer));
  model.file("tokenizer_config.json", R"({"eos_token": "<end>", "pad_token": "b", "chat_template": "{{ x }}"})");
  const std::vector<io::GgufKey> keys = exporting::gguf_tokens(folder, 6);
  const auto value = [&](const std::string& name) {
    const auto found = std::find_if(keys.begin(), keys.end(), [&](const auto& key) { return key.name == name; });
    REQUIRE(found != keys.end());
    return found->value;
  };
  CHECK(std::get<std::string>(value("tokenizer.ggml.pre")) == "smollm");
  CHECK(std::get<std::vector<std::string>>(value("tokenizer.ggml.tokens")) ==
        std::vector<std::string>{"a", "b", "ab", "<end>", "[PAD4]", "[PAD5]"});
  CHECK(std::get<std::vector<std::int32_t>>(value("tokenizer.ggml.token_type")) ==
        std::vector<std::int32_t>{1, 1, 1, 3, 5, 5});
  CHECK(std::get<std::vector<std::string>>(value("tokenizer.ggml.merges")) == std::vector<std::string>{"a b"});
  CHECK(std::get<std::uint32_t>(value("tokenizer.ggml.eos_token_id")) == 2);  // config.json comes first
  CHECK(std::get<std::uint32_t>(value("tokenizer.ggml.padding_token_id")) == 1);
  CHECK(std::get<std::string>(value("tokenizer.chat_template")) == "{{ x }}");
  CHECK(!std::get<bool>(value("tokenizer.ggml.add_bos_token")));
  CHECK_THROWS_WITH(exporting::gguf_tokens(folder, 3), Contains("has 4 pieces, and the word table has 3 rows"));

  tokenizer["normalizer"] = {{"type", "Lowercase"}};
  model.file("tokenizer.json", io::json_text(tokenizer));
  CHECK_THROWS_WITH(exporting::gguf_tokens(folder, 6), Contains("gpt-2, smollm, llama-bpe, qwen2 are known"));
}

TEST_CASE("gguf file: a number beyond half precision is refused, and nothing is left") {
  SmallLlama model;
  model.values_of("model.layers.0.mlp.up_proj.weight")[70] = 1e6f;
  const io::ModelFolder folder = model.open();
  const exporting::Target target{model / "m.gguf"};
  CHECK_THROWS_WITH(exporting::write_gguf_file(folder, spec_of(folder), {.half = true}, target),
                    Contains("half precision ends at 65504") && Contains("row 1, column 6"));
  CHECK(!path_exists(target.path));
}
