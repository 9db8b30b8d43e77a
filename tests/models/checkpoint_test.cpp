// Real and small checkpoints of encoders without head: names, poolers, pooling rules, and comparison with the results
// of an independent implementation.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>

#include "kernels/host/cpu_backend.h"
#include "lib/core/error.h"
#include "lib/core/files/file.h"
#include "lib/core/half.h"
#include "lib/engine/engine.h"
#include "lib/engine/weights_file.h"
#include "models/architecture.h"
#include "models/planning.h"
#include "models/sentence.h"
#include "tests/core/temporary_folder.h"
#include "tests/models/small_models.h"

using namespace comera;

namespace {

constexpr std::int64_t length = 24, width = 384;
// "A man is playing a large flute.", "The quick brown fox jumps over the lazy dog near 42 unaffordable riverbanks.",
// "Hello!"
const std::vector<std::vector<std::int32_t>> sentences = {
    {101, 1037, 2158, 2003, 2652, 1037, 2312, 8928, 1012, 102},
    {101,  1996,  4248, 2829, 4419, 14523, 2058, 1996, 13971, 3899, 2379,
     4413, 14477, 4246, 8551, 3085, 2314,  9299, 2015, 1012,  102},
    {101, 7592, 999, 102}};

// Results of transformers 5.23 on torch 2.15 in double. The error of its float32 is 4.54e-5 over all tokens and
// 7.18e-6 over the means.
struct Known {
  std::int64_t sentence, token, feature;
  double value;
};
const Known known_hidden[] = {{0, 0, 0, 0.448426351029032},    {0, 5, 17, 0.106780910515172},
                              {1, 0, 383, -0.190963690881904}, {1, 16, 200, 1.206060465662674},
                              {1, 3, 99, -0.383739805594916},  {2, 0, 1, 0.040772779776582},
                              {2, 2, 150, -0.031206389156660}, {2, 1, 77, 0.571659746976824}};
const Known known_mean[] = {{0, 0, 0, 0.461544235383426},
                            {1, 0, 100, 0.133742143181883},
                            {2, 0, 383, 0.054463860026332},
                            {1, 0, 7, -0.222673530030753}};
constexpr double torch_hidden_error = 4.54e-5, torch_mean_error = 7.18e-6;

data::Batch batch_of_sentences() {
  models::EncoderSpec spec;
  spec.task = data::Task::embed;
  data::Batch batch = models::planning_batch(spec, 3, length, 0);
  for (std::size_t b = 0; b < sentences.size(); ++b) {
    std::copy(sentences[b].begin(), sentences[b].end(),
              batch["input_ids"].as<std::int32_t>().begin() + static_cast<std::ptrdiff_t>(b * length));
    batch["lengths"].as<std::int32_t>()[b] = static_cast<std::int32_t>(sentences[b].size());
  }
  return batch;
}

struct Numbers {
  std::vector<double> hidden, embedding;
};

Numbers run_sentences(const std::string& folder, const kernels::Backend& backend, DType dtype) {
  engine::Engine engine({&backend, dtype, nullptr}, models::factory_of(models::spec_from_folder(folder), dtype),
                        {.fetch_hidden = true});
  engine.allocate();
  engine::load_weights(folder, engine.weights());
  engine.weights_changed();
  const engine::Scores scores = engine.evaluate(batch_of_sentences());
  return {{scores.hidden.begin(), scores.hidden.end()}, {scores.embedding.begin(), scores.embedding.end()}};
}

// The distance over the tokens that are not padding.
double hidden_distance(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t s = 0; s < sentences.size(); ++s)
    for (std::size_t i = s * length * width; i < (s * length + sentences[s].size()) * width; ++i)
      sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

}  // namespace

TEST_CASE("checkpoint: MiniLM's hidden states and sentence vectors equal those of transformers") {
  const char* data = std::getenv("COMERA_DATA");
  if (!data) {
    WARN("skipped: COMERA_DATA names no folder");
    return;
  }
  const std::string folder = join_path(data, "checkpoints/all-MiniLM-L6-v2");
  const Numbers truth = run_sentences(folder, kernels::reference_backend(), DType::f64);
  // Two programs in double differ by the rounding of some thousand sums. The known values have 15 digits.
  for (const Known& k : known_hidden)
    CHECK(std::abs(truth.hidden[(k.sentence * length + k.token) * width + k.feature] - k.value) < 1e-11);
  for (const Known& k : known_mean) CHECK(std::abs(truth.embedding[k.sentence * width + k.feature] - k.value) < 1e-11);
  for (const char* isa : kernels::cpu_isas) {
    const char* error = nullptr;
    const kernels::Backend* cpu = kernels::cpu_backend(isa, &error);
    if (!cpu) continue;
    const Numbers fast = run_sentences(folder, *cpu, DType::f32);
    INFO(isa);
    CHECK(hidden_distance(fast.hidden, truth.hidden) < 4 * torch_hidden_error);
    CHECK(distance(fast.embedding, truth.embedding) < 4 * torch_mean_error);
  }
}

TEST_CASE("checkpoint: an encoder without head keeps its names and its pooler") {
  for (const bool bare : {false, true})
    for (const bool pooler : {false, true})
      for (const models::Form form : {models::Form::dense, models::Form::tt}) {
        models::EncoderSpec spec = small_encoder(false, models::Task::embed, models::Form::dense);
        spec.bare = bare, spec.pooler = pooler;
        models::FormRules rules;
        rules.form = form, rules.rank = rules.embedding_rank = 3, rules.order = 2, rules.embedding_order = 3;
        models::apply_forms(spec, models::weight_sites(spec), rules);
        const auto model = models::make_model(spec, DType::f32);
        const std::string prefix = bare ? "" : "bert.", end = form == models::Form::tt ? ".tt.0" : ".weight";
        CHECK(model->parameters().find(prefix + "encoder.layer.1.attention.self.query" + end) != nullptr);
        CHECK((model->parameters().find(prefix + "pooler.dense" + end) != nullptr) == pooler);
        const std::string text = model->config_json();
        CHECK(models::make_model(models::parse_config_json(text, "config.json", {bare, pooler}), DType::f32)
                  ->config_json() == text);
      }
}

TEST_CASE("checkpoint: unknown keys of a config.json are kept") {
  std::string text =
      models::make_model(small_encoder(false, models::Task::embed, models::Form::tt), DType::f32)->config_json();
  text.insert(text.find('{') + 1, "\"transformers_version\": \"4.8.2\", \"gradient_checkpointing\": false,");
  const auto model = models::make_model(models::parse_config_json(text, "config.json", {false, false}), DType::f32);
  CHECK_THAT(model->config_json(),
             Catch::Contains("\"transformers_version\": \"4.8.2\"") && Catch::Contains("gradient_checkpointing"));
}

TEST_CASE("checkpoint: a tensorized model reloads from its file, and unfolding its gauges keeps the outputs") {
  const TemporaryFolder folder;
  models::ModelSpec spec = tensorized_encoder(false, models::Task::classify);
  const kernels::Backend& backend = kernels::reference_backend();
  const engine::EngineOptions options{};
  const auto answer = [&](engine::Engine& engine) {
    engine.weights_changed();
    const engine::Scores scores = engine.evaluate(small_batch(spec));
    return std::vector<double>(scores.logits.begin(), scores.logits.end());
  };
  engine::Engine first({&backend, DType::f32, nullptr}, models::factory_of(spec, DType::f32), options);
  first.allocate();
  first.weights().initialise(3);
  for (layers::ChainParameters& chain : first.model().chains()) {
    for (std::size_t p = 0; p < chain.order.size(); ++p)
      chain.order[p] = static_cast<std::int32_t>((5 * p + 1) % chain.order.size());
    for (std::size_t r = 0; r < chain.gauge.size(); ++r)
      chain.gauge[r] = static_cast<std::int32_t>((3 * r + 2) % static_cast<std::size_t>(chain.rows));
    for (std::int32_t& id : chain.exact_ids) id = 2 * id + 1;
  }
  engine::save_weights(folder / "model.safetensors", first.weights());
  CHECK(file_size(folder / "model.safetensors") == engine::weights_file_bytes(first.model()));
  engine::Engine again({&backend, DType::f32, nullptr}, models::factory_of(spec, DType::f32), options);
  again.allocate();
  CHECK(engine::load_weights(folder / "model.safetensors", again.weights()).empty());
  CHECK(answer(again) == answer(first));
  models::unfold(models::common(spec));
  engine::Engine unfolded({&backend, DType::f32, nullptr}, models::factory_of(spec, DType::f32), options);
  unfolded.allocate();
  unfolded.weights().initialise(3);
  engine::LoadOptions loading;
  loading.may_miss = [](const layers::Parameter& parameter) { return parameter.role == layers::Role::diagonal; };
  CHECK(!engine::load_weights(folder / "model.safetensors", unfolded.weights(), loading).empty());
  CHECK(answer(unfolded) == answer(first));
  CHECK(unfolded.model().parameters().count() > first.model().parameters().count());
}

TEST_CASE("checkpoint: weights are written in the requested types, and a number outside the type's range is refused") {
  const TemporaryFolder folder;
  const models::ModelSpec spec = tensorized_encoder(false, models::Task::classify);
  const plan::Machine machine{&kernels::reference_backend(), DType::f32, nullptr};
  engine::StoredTypes types;
  types.others = DType::f16;
  types.by_name["model.bert.embeddings.LayerNorm.weight"] = DType::f32;
  engine::LoadOptions naming;
  naming.model_prefix = "bert.", naming.file_prefix = "model.bert.";
  engine::Engine engine(machine, engine::storing(models::factory_of(spec, DType::f32), types, naming), {});
  engine.allocate();
  engine.weights().initialise(5);
  const std::string path = folder / "model.safetensors", exact = folder / "exact.safetensors";
  engine::save_weights(path, engine.weights(), engine::FileTypes::stored);
  engine::save_weights(exact, engine.weights());
  CHECK(file_size(path) == engine::weights_file_bytes(engine.model(), engine::FileTypes::stored));
  const io::SafetensorsFile half(path), whole(exact);
  for (const layers::Parameter& parameter : engine.model().parameters().all()) {
    const io::StoredTensor& tensor = *half.find(parameter.name);
    const bool kept = parameter.role == layers::Role::diagonal || parameter.name == "bert.embeddings.LayerNorm.weight";
    CHECK(tensor.type == (kept ? io::StoredType::F32 : io::StoredType::F16));
    CHECK(whole.find(parameter.name)->type == io::StoredType::F32);
    const std::vector<float> ours = half.read_floats(parameter.name), numbers = whole.read_floats(parameter.name);
    for (std::size_t i = 0; i < ours.size(); ++i)
      REQUIRE(ours[i] == (kept ? numbers[i] : half_to_float(float_to_half(numbers[i]))));
  }
  layers::Parameter& bias = *engine.model().parameters().find("classifier.bias");
  layers::store(bias.value, 0, 7e4);
  CHECK_THROWS_WITH(engine::save_weights(path, engine.weights(), engine::FileTypes::stored),
                    Catch::Contains("classifier.bias: 70000 is too large"));
  engine::save_weights(exact, engine.weights());
}

TEST_CASE("checkpoint: names of older checkpoints are found, and tied tensors must agree") {
  const TemporaryFolder folder;
  const std::string path = folder / "model.safetensors", other = folder / "other.safetensors";
  const models::ModelSpec spec = small_encoder(false, models::Task::mlm, models::Form::dense);
  const auto engine = [&] {
    auto made = std::make_unique<engine::Engine>(plan::Machine{&kernels::reference_backend(), DType::f32, nullptr},
                                                 models::factory_of(spec, DType::f32), engine::EngineOptions{});
    made->allocate();
    return made;
  };
  const auto first = engine(), again = engine();
  first->weights().initialise(4);
  engine::save_weights(path, first->weights());
  const io::SafetensorsFile file(path);
  const std::string words = "bert.embeddings.word_embeddings.weight", bias = "cls.predictions.bias";
  std::vector<std::byte> tied(file.bytes(*file.find(words)).begin(), file.bytes(*file.find(words)).end());
  const auto rewrite = [&] {
    std::vector<io::TensorToWrite> tensors;
    for (const io::StoredTensor& tensor : file.tensors()) {
      std::string name = tensor.name == bias ? "cls.predictions.decoder.bias" : tensor.name;
      if (name.ends_with("LayerNorm.weight")) name.replace(name.size() - 6, 6, "gamma");
      if (name.ends_with("LayerNorm.bias")) name.replace(name.size() - 4, 4, "beta");
      tensors.push_back({name, tensor.type, tensor.shape, file.bytes(tensor).data()});
    }
    tensors.push_back({"cls.predictions.decoder.weight", io::StoredType::F32, file.find(words)->shape, tied.data()});
    io::write_safetensors(other, tensors, {});
  };
  rewrite();
  engine::load_weights(other, again->weights());
  const auto &a = first->model().parameters().all(), &b = again->model().parameters().all();
  for (std::size_t i = 0; i < a.size(); ++i) {
    INFO(a[i].name);
    CHECK(std::memcmp(a[i].value.data, b[i].value.data, a[i].value.bytes()) == 0);
  }
  tied.back() ^= std::byte{1};
  rewrite();
  CHECK_THROWS_WITH(engine::load_weights(other, again->weights()),
                    Catch::Contains(words) && Catch::Contains("cls.predictions.decoder.weight") &&
                        Catch::Contains("must be the same"));
}

TEST_CASE("checkpoint: modules.json determines the sentence rules; without it the plain mean is used") {
  const TemporaryFolder folder;
  const auto write = [&](const std::string& name, const std::string& text) {
    make_folders(parent_path(join_path(folder.path(), name)));
    write_file_atomic(join_path(folder.path(), name), text);
  };
  const auto rules = [&] { return models::read_sentence_rules(folder.path()); };
  CHECK(rules().pooling == kernels::Pooling::mean);
  CHECK(!rules().normalise);
  write("sentence_bert_config.json", R"({"max_seq_length": 256, "do_lower_case": false})");
  const std::string transformer =
      R"({"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"})";
  const std::string pooling =
      R"({"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"})";
  const std::string normalize =
      R"({"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"})";
  write("1_Pooling/config.json",
        R"({"word_embedding_dimension": 8, "pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false})");
  write("modules.json", "[" + transformer + "," + pooling + "]");
  CHECK(rules().pooling == kernels::Pooling::first);
  CHECK(!rules().normalise);
  CHECK(rules().max_length == 256);
  write("modules.json", "[" + transformer + "," + pooling + "," + normalize + "]");
  CHECK(rules().normalise);
  // A folder with a head of words: the rules hold for vectors that it learns next.
  engine::Engine words(plan::Machine{&kernels::reference_backend(), DType::f32, nullptr},
                       models::factory_of(small_encoder(false, models::Task::mlm, models::Form::dense), DType::f32),
                       {});
  words.allocate();
  engine::save_weights(join_path(folder.path(), "model.safetensors"), words.weights());
  write("config.json", words.model().config_json());
  const auto spec = std::get<models::EncoderSpec>(models::spec_from_folder(folder.path()));
  CHECK(spec.task == data::Task::mlm);
  CHECK(models::with_head(spec, data::Task::pairs, {}).sentence.pooling == kernels::Pooling::first);
  CHECK(spec.sentence.max_length == 0);
  write("1_Pooling/config.json", R"({"pooling_mode_max_tokens": true})");
  CHECK_THROWS_WITH(rules(), Catch::Contains("pooling by 'max_tokens' is not supported"));
  write("1_Pooling/config.json", R"({"pooling_mode_mean_tokens": true})");
  CHECK(rules().pooling == kernels::Pooling::mean);
  // The text before every sentence.
  write("modules.json", "[" + transformer + "," + pooling + "]");
  const auto prompt = [&] { return models::default_prompt(folder.path()); };
  CHECK(prompt().empty());
  write("config_sentence_transformers.json",
        R"({"prompts": {"query": "Q: ", "plain": ""}, "default_prompt_name": null})");
  CHECK(prompt().empty());
  models::require_no_prompt(folder.path(), "finetune");
  write("config_sentence_transformers.json",
        R"({"prompts": {"query": "Q: ", "plain": ""}, "default_prompt_name": "plain"})");
  CHECK(prompt().empty());
  write("config_sentence_transformers.json", R"({"prompts": {"query": "Q: "}, "default_prompt_name": "query"})");
  CHECK(prompt() == "Q: ");
  CHECK_THROWS_WITH(models::require_no_prompt(folder.path(), "finetune"),
                    Catch::Contains("default_prompt_name 'query' puts 'Q: ' before every text"));
  write("1_Pooling/config.json", R"({"pooling_mode_mean_tokens": true, "include_prompt": false})");
  CHECK_THROWS_WITH(prompt(), Catch::Contains("1_Pooling/config.json: include_prompt is false"));
  write("config_sentence_transformers.json", R"({"prompts": {}, "default_prompt_name": "query"})");
  CHECK_THROWS_WITH(prompt(), Catch::Contains("default_prompt_name is 'query', and prompts has no such text"));
  write("modules.json", R"([{"type": "sentence_transformers.models.Dense", "path": "2_Dense"}])");
  CHECK_THROWS_WITH(rules(), Catch::Contains("sentence_transformers.models.Dense"));
  write("modules.json", R"([{"type": "x.Pooling", "path": "../elsewhere"}])");
  CHECK_THROWS_AS(rules(), InputError);
  write("modules.json", "{}");
  CHECK_THROWS_AS(rules(), InputError);
}
