#include "lib/io/adapter/lora.h"

#include <catch2/catch.hpp>

#include "lib/core/error.h"
#include "lib/core/half.h"
#include "lib/io/adapter/write_lora.h"
#include "lib/io/model_folder.h"
#include "tests/core/temporary_folder.h"

using namespace comera;
using namespace comera::io;
using Catch::Matchers::Contains;

namespace {

using Values = std::vector<float>;

TensorToWrite tensor(const std::string& name, FileShape shape, const Values& values,
                     StoredType type = StoredType::F32) {
  return {name, type, std::move(shape), values.data(), true};
}

const Values weight{1, 2, 3, 4, 5, 6}, numbers{1, 2, 3, 4, 5, 6};
const Values a{1, 10, 100}, b{1, 2}, wide_a{1, 0, 0, 0, 1, 0}, wide_b{1, 3, 2, 4};

// A model with a linear weight [2, 3] and a table [3, 2], and an adapter.
class Fixture {
 public:
  explicit Fixture(StoredType type = StoredType::F32, const char* config = R"({"model_type": "llama"})") {
    make_folders(folder_ / "model");
    make_folders(folder_ / "adapter");
    write_safetensors(
        folder_ / "model/model.safetensors",
        {tensor("layer.proj.weight", {2, 3}, weight, type), tensor("embed.weight", {3, 2}, numbers, type)}, {});
    write_file_atomic(folder_ / "model/config.json", config);
    config_ = Json{{"peft_type", "LORA"}, {"r", 1}, {"lora_alpha", 2}};
    factors({tensor("base_model.model.layer.proj.lora_A.weight", {1, 3}, a),
             tensor("base_model.model.layer.proj.lora_B.weight", {2, 1}, b)});
  }
  Fixture& set(const char* key, const Json& value) { return config_[key] = value, *this; }
  // The model has a table [3, 2] of this name in place of its weights.
  Fixture& table(const std::string& name) {
    write_safetensors(folder_ / "model/model.safetensors", {tensor(name + ".weight", {3, 2}, numbers)}, {});
    return *this;
  }
  Fixture& factors(const std::vector<TensorToWrite>& tensors) {
    write_safetensors(folder_ / "adapter/adapter_model.safetensors", tensors, {});
    return *this;
  }
  ModelFolder open() {
    write_file_atomic(folder_ / "adapter/adapter_config.json", config_.dump());
    return ModelFolder(folder_ / "model", folder_ / "adapter");
  }
  std::string error() {
    try {
      open();
      return "accepted";
    } catch (const InputError& error) {
      return error.what();
    }
  }
  Values merged() { return open().read_floats("layer.proj.weight", {2, 3}); }
  std::string in(const std::string& name) const { return folder_ / name; }

 private:
  TemporaryFolder folder_;
  Json config_;
};

}  // namespace

TEST_CASE("lora: W + alpha / r B A, with patterns, and with the root of the rank") {
  CHECK(Fixture().merged() == Values{3, 22, 203, 8, 45, 406});
  CHECK(Fixture().set("lora_alpha", 0).merged() == weight);
  CHECK(Fixture().set("alpha_pattern", {{"proj", 1}}).merged() == Values{2, 12, 103, 6, 25, 206});
  CHECK(Fixture().set("alpha_pattern", {{"roj", 1}, {"other.proj", 5}}).merged() == Values{3, 22, 203, 8, 45, 406});
  // If two patterns fit, the first one in the file counts.
  CHECK(Fixture().set("alpha_pattern", {{"layer.proj", 0}, {"proj", 1}}).merged() == weight);
  const auto wide = [](Fixture&& fixture) {
    fixture.factors({tensor("base_model.model.layer.proj.lora_A.weight", {2, 3}, wide_a),
                     tensor("base_model.model.layer.proj.lora_B.weight", {2, 2}, wide_b)});
    return fixture.merged();
  };
  // B A = [1 3 0; 2 4 0].
  CHECK(wide(std::move(Fixture().set("r", 2))) == Values{2, 5, 3, 6, 9, 6});
  CHECK(wide(std::move(Fixture().set("rank_pattern", {{"proj", 2}}).set("lora_alpha", 4))) ==
        Values{3, 8, 3, 8, 13, 6});
  const Values rooted = wide(std::move(Fixture().set("r", 2).set("use_rslora", true)));
  CHECK(rooted[0] == 1 + static_cast<float>(2 / std::sqrt(2.0)));
}

TEST_CASE("lora: sums are rounded to the type of the weight, and bytes are those numbers") {
  for (const StoredType type : {StoredType::F32, StoredType::F16, StoredType::BF16}) {
    const Values third{0.1f, 0.3f, 1e-3f};
    Fixture fixture(type);
    fixture.factors({tensor("base_model.model.layer.proj.lora_A.weight", {1, 3}, third, StoredType::F32),
                     tensor("base_model.model.layer.proj.lora_B.weight", {2, 1}, b, StoredType::F16)});
    const ModelFolder model = fixture.open();
    const Values merged = model.read_floats("layer.proj.weight", {2, 3});
    const ModelFolder::Entry& entry = *model.find("layer.proj.weight");
    CHECK(entry.tensor.type == type);
    const StoredBytes bytes = model.file_of(entry).bytes(entry.tensor);
    Values stored(6);
    to_floats(type, bytes.span(), stored);
    CHECK(stored == merged);
    Values last(3);
    model.file_of(entry).read_strip(entry.tensor, 1, last);
    CHECK(last == Values(merged.begin() + 3, merged.end()));
    const float sum = 5.0f + 2 * 2 * 0.3f;
    CHECK(merged[4] == (type == StoredType::F16    ? half_to_float(float_to_half(sum))
                        : type == StoredType::BF16 ? bf16_to_float(float_to_bf16(sum))
                                                   : sum));
    CHECK(model.read_floats("embed.weight", {3, 2}) == numbers);
    CHECK(model.file_of(entry).all_paths().size() == 3);
  }
}

TEST_CASE("lora: tables and Conv1D are changed by the transpose") {
  // A [R, rows], B [columns, R] of a table [rows, columns].
  Fixture fixture;
  fixture.factors({tensor("base_model.model.embed.lora_embedding_A", {1, 3}, a),
                   tensor("base_model.model.embed.lora_embedding_B", {2, 1}, b)});
  CHECK(fixture.open().read_floats("embed.weight", {3, 2}) == Values{3, 6, 23, 44, 205, 406});
  Fixture gpt2(StoredType::F32, R"({"model_type": "gpt2"})");
  gpt2.factors({tensor("base_model.model.layer.proj.lora_A.weight", {1, 2}, b),
                tensor("base_model.model.layer.proj.lora_B.weight", {3, 1}, a)});
  CHECK(gpt2.merged() == Values{3, 22, 203, 8, 45, 406});
}

TEST_CASE("lora: a table of words or its head is refused where both are one tensor, other tables are not") {
  const auto error = [](const char* config, const std::string& module, const char* kind = "lora_embedding_") {
    Fixture fixture(StoredType::F32, config);
    const bool is_table = kind == std::string("lora_embedding_");
    fixture.table(module);
    const std::string prefix = "base_model.model." + module + "." + kind;
    if (is_table) fixture.factors({tensor(prefix + "A", {1, 3}, a), tensor(prefix + "B", {2, 1}, b)});
    if (!is_table) fixture.factors({tensor(prefix + "A.weight", {1, 2}, b), tensor(prefix + "B.weight", {3, 1}, a)});
    return fixture.error();
  };
  const auto tied_table = Contains("lora_embedding_A changes a table that is the head too");
  const auto tied_head = Contains("lora_A.weight changes a head that is the table of words too");
  const char *llama = R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "tie_word_embeddings": true})",
             *untied = R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"]})",
             *gpt2 = R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "tie_word_embeddings": true})",
             *masked = R"({"model_type": "bert", "architectures": ["BertForMaskedLM"]})",
             *body = R"({"model_type": "bert", "architectures": ["BertModel"], "tie_word_embeddings": true})",
             *other = R"({"model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "vocab_size": 3})";
  CHECK_THAT(error(llama, "model.embed_tokens"), tied_table);
  CHECK_THAT(error(llama, "lm_head", "lora_"), tied_head);
  CHECK(error(untied, "model.embed_tokens") == "accepted");
  CHECK(error(untied, "lm_head", "lora_") == "accepted");
  CHECK_THAT(error(gpt2, "transformer.wte"), tied_table);
  CHECK(error(gpt2, "transformer.wpe") == "accepted");
  CHECK_THAT(error(masked, "bert.embeddings.word_embeddings"), tied_table);
  CHECK_THAT(error(masked, "cls.predictions.decoder", "lora_"), tied_head);
  CHECK(error(masked, "bert.embeddings.position_embeddings") == "accepted");
  CHECK(error(body, "embeddings.word_embeddings") == "accepted");
  CHECK_THAT(error(other, "shared"), tied_table);
}

TEST_CASE("lora: adapters of other models and incomplete ones are refused by name") {
  const auto with = [](const std::vector<TensorToWrite>& tensors) { return Fixture().factors(tensors).error(); };
  const std::string proj = "base_model.model.layer.proj.lora_";
  CHECK(with({tensor(proj + "A.weight", {1, 3}, a), tensor(proj + "B.weight", {2, 1}, b)}) == "accepted");
  CHECK_THAT(with({tensor(proj + "A.weight", {1, 3}, a)}), Contains("module layer.proj.weight has one of"));
  CHECK_THAT(with({tensor(proj + "A.weight", {1, 2}, b), tensor(proj + "B.weight", {2, 1}, b)}),
             Contains("make [2, 2]") && Contains("has [2, 3]") && Contains("another model"));
  CHECK_THAT(with({tensor(proj + "A.weight", {3, 1}, a), tensor(proj + "B.weight", {2, 1}, b)}),
             Contains("says rank 1"));
  CHECK_THAT(with({tensor(proj + "A.weight", {3}, a), tensor(proj + "B.weight", {2, 1}, b)}),
             Contains("a matrix of floating numbers was wanted"));
  CHECK_THAT(with({tensor("base_model.model.other.lora_A.weight", {1, 3}, a),
                   tensor("base_model.model.other.lora_B.weight", {2, 1}, b)}),
             Contains("changes other.weight") && Contains("no such dense tensor"));
  CHECK_THAT(with({tensor("base_model.model.layer.proj.lora_magnitude_vector", {2}, b)}),
             Contains("lora_magnitude_vector is no lora_A or lora_B"));
  CHECK_THAT(with({tensor("layer.proj.lora_A.weight", {1, 3}, a)}), Contains("is no lora_A or lora_B"));
  CHECK_THAT(with({}), Contains("holds no tensor"));
  Fixture missing;
  CHECK_THROWS_WITH(ModelFolder(missing.in("model"), missing.in("none")), Contains("no such folder"));
  CHECK_THROWS_WITH(ModelFolder(missing.in("model"), missing.in("model")), Contains("holds no adapter_config.json"));
}

TEST_CASE("lora: settings that change the answers are refused, others are not") {
  for (const auto& [key, value] :
       std::initializer_list<std::pair<const char*, Json>>{{"peft_type", "LOHA"},
                                                           {"use_dora", true},
                                                           {"bias", "all"},
                                                           {"lora_bias", true},
                                                           {"modules_to_save", Json{"lm_head"}},
                                                           {"init_lora_weights", "pissa"},
                                                           {"layer_replication", Json{{0, 1}}},
                                                           {"alora_invocation_tokens", Json{1}},
                                                           {"trainable_token_indices", Json{1}},
                                                           {"something_new", 3},
                                                           {"r", 0},
                                                           {"r", 1.5},
                                                           {"r", 1e30},
                                                           {"lora_alpha", "2"},
                                                           {"rank_pattern", Json{1}},
                                                           {"rank_pattern", Json{{".*proj", 1}}},
                                                           {"alpha_pattern", Json{{"proj", nullptr}}}}) {
    INFO(key << " " << value.dump());
    CHECK_THAT(Fixture().set(key, value).error(), Contains("adapter_config.json"));
  }
  for (const auto& [key, value] : std::initializer_list<std::pair<const char*, Json>>{{"use_dora", false},
                                                                                      {"bias", "none"},
                                                                                      {"modules_to_save", nullptr},
                                                                                      {"init_lora_weights", true},
                                                                                      {"init_lora_weights", "gaussian"},
                                                                                      {"target_modules", Json{"proj"}},
                                                                                      {"fan_in_fan_out", true},
                                                                                      {"task_type", "CAUSAL_LM"},
                                                                                      {"lora_dropout", 0.1},
                                                                                      {"something_new", false}})
    CHECK(Fixture().set(key, value).merged() == Values{3, 22, 203, 8, 45, 406});
}

TEST_CASE("lora: a written adapter is read back with a scale of 1") {
  const Fixture fixture;
  const std::vector<LoraModule> modules{{"layer.proj", 2, 3, 2}, {"other.proj", 1, 2, 2, StoredType::F16}};
  write_lora(fixture.in("written"), modules, "base", [&](const LoraModule& module) -> LoraFactors {
    if (module.rank == 1) return {{1, 2, b}, {2, 1, b}};
    return {{2, 3, wide_a}, {2, 2, wide_b}};
  });
  CHECK(file_size(fixture.in("written/adapter_model.safetensors")) == lora_bytes(modules));
  const std::string path = fixture.in("written/adapter_config.json");
  const LoraConfig config = parse_lora_config(read_file(path), path);
  CHECK(config.rank_of("layer.proj") == 2);
  CHECK(config.rank_of("other.proj") == 1);
  CHECK(config.scale_of("layer.proj") == 1);
  CHECK(config.scale_of("other.proj") == 1);
  CHECK_THROWS_WITH(ModelFolder(fixture.in("model"), fixture.in("written")), Contains("changes other.proj.weight"));
  write_lora(fixture.in("one"), {modules[0]}, "base", [&](const LoraModule&) -> LoraFactors {
    return {{2, 3, wide_a}, {2, 2, wide_b}};
  });
  CHECK(ModelFolder(fixture.in("model"), fixture.in("one")).read_floats("layer.proj.weight", {2, 3}) ==
        Values{2, 5, 3, 6, 9, 6});
}
