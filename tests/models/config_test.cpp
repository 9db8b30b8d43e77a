#include <catch2/catch.hpp>
#include <ctime>

#include "lib/core/error.h"
#include "models/encoder/encoder_config.h"
#include "models/forms.h"
#include "models/model_options.h"
#include "tests/models/small_models.h"

using namespace comera;
using models::EncoderSpec;
using models::Form;
using models::Task;

namespace {

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

std::string config_of(const models::ModelSpec& spec) { return models::make_model(spec, DType::f32)->config_json(); }

OptionTable table() {
  OptionTable table("pretrain", "test");
  table.add(models::model_options());
  return table;
}

}  // namespace

TEST_CASE("config: reading config.json back builds the same model") {
  for (const bool pre_norm : {false, true})
    for (const Task task : {Task::classify, Task::regression, Task::mlm, Task::multilabel, Task::tag})
      for (const Form form : {Form::dense, Form::tt, Form::lowrank}) {
        const EncoderSpec spec = small_encoder(pre_norm, task, form);
        const std::string text = config_of(spec);
        CHECK(config_of(models::parse_config_json(text, "config.json")) == text);
      }
}

TEST_CASE(
    "config: labels of words and sets of labels have transformers' names; pairs are stored as a model of vectors") {
  const std::string tags = config_of(small_encoder(false, Task::tag, Form::dense)),
                    sets = config_of(small_encoder(false, Task::multilabel, Form::dense)),
                    pairs = config_of(small_encoder(false, Task::pairs, Form::dense));
  CHECK(tags.find("BertForTokenClassification") != std::string::npos);
  CHECK(models::common(models::parse_config_json(tags, "config.json")).task == Task::tag);
  CHECK(sets.find("\"problem_type\": \"multi_label_classification\"") != std::string::npos);
  CHECK(models::common(models::parse_config_json(sets, "config.json")).task == Task::multilabel);
  CHECK(pairs.find("BertModel") != std::string::npos);
  CHECK(models::common(models::parse_config_json(pairs, "config.json")).task == Task::embed);
}

TEST_CASE("config: errors for inconsistent or unsupported values name the key") {
  const std::string text = config_of(small_encoder(false, Task::classify, Form::tt));
  const auto refused = [&](const std::string& from, const std::string& to, const std::string& words) {
    CHECK_THROWS_WITH(models::parse_config_json(replaced(text, from, to), "c.json"),
                      Catch::Contains("c.json") && Catch::Contains(words));
  };
  refused("\"hidden_act\": \"gelu\"", "\"hidden_act\": \"relu\"", "hidden_act is 'relu'");
  refused("\"position_embedding_type\": \"absolute\"", "\"position_embedding_type\": \"relative_key\"",
          "position_embedding_type");
  refused("\"model_type\": \"bert\"", "\"model_type\": \"t5\"", "model_type is 't5'");
  refused("\"hidden_size\": 8", "\"hidden_size\": \"8\"", "hidden_size");
  refused("BertForSequenceClassification", "BertForQuestionAnswering", "BertForQuestionAnswering");
  CHECK_THROWS_WITH(
      models::parse_config_json(replaced(text, "\"num_attention_heads\": 2", "\"num_attention_heads\": 3"), "c.json"),
      Catch::Contains("hidden_size 8 is not a multiple of num_attention_heads 3"));
  CHECK_THROWS_AS(models::parse_config_json(replaced(text, "\"hidden_size\": 8", "\"hidden_size\": 16"), "c.json"),
                  InputError);
  const std::string words = config_of(small_encoder(false, Task::mlm, Form::tt));
  CHECK_THROWS_WITH(models::parse_config_json(
                        replaced(words, "\"tie_word_embeddings\": true", "\"tie_word_embeddings\": false"), "c.json"),
                    Catch::Contains("c.json: tie_word_embeddings is false; only true is supported"));
  CHECK_THROWS_AS(models::parse_config_json("[]", "c.json"), InputError);
  CHECK_THROWS_AS(models::parse_config_json("{", "c.json"), InputError);
}

TEST_CASE("config: MPNet's numbers that transformers has in its code are refused otherwise") {
  const std::string text = config_of(small_mpnet(Task::classify, Form::tt));
  CHECK(config_of(models::parse_config_json(text, "c.json")) == text);
  const auto refused = [&](const std::string& from, const std::string& to, const std::string& words) {
    CHECK_THROWS_WITH(models::parse_config_json(replaced(text, from, to), "c.json"), Catch::Contains(words));
  };
  refused("\"relative_attention_num_buckets\": 32", "\"relative_attention_num_buckets\": 16",
          "c.json: relative_attention_num_buckets is 16; only 32 is supported");
  refused("\"pad_token_id\": 1", "\"pad_token_id\": 0", "c.json: pad_token_id is 0; only 1 is supported");
  refused("\"hidden_act\": \"gelu\"", "\"hidden_act\": \"relu\"", "hidden_act is 'relu'");
  refused("MPNetForSequenceClassification", "MPNetForQuestionAnswering",
          "of model_type mpnet, MPNetModel, MPNetForSequenceClassification, MPNetForTokenClassification and "
          "MPNetForMaskedLM are");
}

TEST_CASE("config: ModernBERT's values that do not fit are refused by their names") {
  for (const Task task : {Task::classify, Task::regression, Task::mlm, Task::embed, Task::multilabel, Task::tag})
    for (const bool biases : {false, true}) {
      const std::string text = config_of(small_modernbert(task, Form::tt, biases));
      CHECK(config_of(models::parse_config_json(text, "c.json", {.bare = false, .pooler = false})) == text);
    }
  const std::string classifier = config_of(small_modernbert(Task::classify, Form::tt)),
                    words = config_of(small_modernbert(Task::mlm, Form::dense));
  const auto refused = [](const std::string& text, const std::string& from, const std::string& to,
                          const std::string& message) {
    CHECK_THROWS_WITH(models::parse_config_json(replaced(text, from, to), "c.json"), Catch::Contains(message));
  };
  refused(classifier, "\"hidden_activation\": \"gelu\"", "\"hidden_activation\": \"silu\"",
          "c.json: hidden_activation is 'silu'; only 'gelu' is supported");
  refused(classifier, "\"classifier_pooling\": \"cls\"", "\"classifier_pooling\": \"max\"",
          "classifier_pooling is 'max'; 'cls' and 'mean' are supported");
  refused(classifier, "\"mlp_dropout\": 0.0", "\"mlp_dropout\": 0.1", "mlp_dropout is 0.1; only 0");
  refused(words, "\"decoder_bias\": true", "\"decoder_bias\": false", "decoder_bias is false; only true");
  refused(words, "\"tie_word_embeddings\": true", "\"tie_word_embeddings\": false",
          "tie_word_embeddings is false; only true");
  const auto refused_key = [&](const std::string& key, const std::string& message) {
    refused(words, "\"mlp_dropout\": 0.0", key, message);
  };
  refused_key(R"("layer_types": ["full_attention"])", "layer_types must be a list of the types of 2 layers");
  refused_key(R"("layer_types": ["full_attention", "chunked"])", "layer_types[1] is \"chunked\"");
  refused_key(R"("rope_scaling": {"factor": 2})", "rope_scaling is {");
  refused_key(R"("rope_parameters": {"full_attention": {"rope_type": "yarn", "rope_theta": 10.0}})",
              "c.json: rope_parameters.full_attention: rope_type is 'yarn'; only 'default'");
  refused_key(R"("rope_parameters": 7)", "rope_parameters is 7; it must be an object or null");
  refused(words, "\"local_attention\": 4", "\"local_attention\": -4", "local_attention is -4; it must lie between");
  refused(words, "\"global_attn_every_n_layers\": 2", "\"global_attn_every_n_layers\": 0",
          "global_attn_every_n_layers is 0; it must be at least 1");
  refused(words, "\"global_rope_theta\": 100.0", "\"global_rope_theta\": 0.0",
          "base of rotary angles 0 must lie between 1 and");
  refused(words, "\"local_rope_theta\": 10.0", "\"local_rope_theta\": null", "local_rope_theta is null");
  refused(words, "\"num_attention_heads\": 2", "\"num_attention_heads\": 8", "heads of 1 numbers");
  refused(words, "ModernBertForMaskedLM", "ModernBertForQuestionAnswering",
          "of model_type modernbert, ModernBertModel, ModernBertForSequenceClassification,");
}

TEST_CASE("config: one output is a regression, as in transformers") {
  const std::string text = config_of(small_encoder(false, Task::regression, Form::dense));
  const auto read = [](const std::string& config) {
    return models::common(models::parse_config_json(config, "c.json"));
  };
  CHECK(text.find("\"problem_type\": \"regression\"") != std::string::npos);
  CHECK(text.find("\"num_labels\": 1") != std::string::npos);
  CHECK(text.find("BertForSequenceClassification") != std::string::npos);
  CHECK(read(text).task == Task::regression);
  const std::string bare = replaced(text, "\"problem_type\": \"regression\"", "\"problem_type\": null");
  CHECK(read(bare).task == Task::regression);
  CHECK(read(replaced(bare, "\"id2label\"", "\"no_labels\"")).labels == std::vector<std::string>{"LABEL_0"});
  CHECK(read(replaced(text, "\"LABEL_0\"", "\"stars\"")).labels == std::vector<std::string>{"stars"});
  const auto refused = [&](const std::string& config, const std::string& words) {
    CHECK_THROWS_WITH(models::parse_config_json(config, "c.json"), Catch::Contains("c.json") && Catch::Contains(words));
  };
  refused(replaced(text, "\"problem_type\": \"regression\"", "\"problem_type\": \"ranking\""),
          "problem_type is 'ranking'");
  refused(replaced(text, "\"problem_type\": \"regression\"", "\"problem_type\": \"single_label_classification\""),
          "at least two labels");
  const std::string classes = config_of(small_encoder(false, Task::classify, Form::dense));
  CHECK(classes.find("problem_type") == std::string::npos);
  refused(replaced(classes, "{", "{\"problem_type\": \"regression\","), "one output, but there are 3 labels");
  // A new head removes all keys of the old one.
  models::ModelSpec spec = models::parse_config_json(text, "c.json");
  CHECK(config_of(models::with_head(spec, Task::classify, {"a", "b"})).find("problem_type") == std::string::npos);
  spec = models::with_head(models::parse_config_json(classes, "c.json"), Task::regression, {});
  CHECK(models::common(spec).outputs() == 1);
  CHECK(read(config_of(spec)).task == Task::regression);
}

TEST_CASE("config: a head's dropout is its own or that of the branches, and --dropout sets all of them") {
  const std::string text = config_of(small_encoder(false, Task::classify, Form::dense));
  const auto read = [&](const char* key) {
    return models::parse_config_json(replaced(text, "{", std::string("{") + key), "c.json");
  };
  const auto head = [](const models::ModelSpec& spec) { return std::get<EncoderSpec>(spec).head_dropout; };
  models::ModelSpec own = read("\"classifier_dropout\": 0.4,"), shared = read("\"classifier_dropout\": null,");
  CHECK(head(own) == 0.4);
  CHECK_FALSE(head(shared));
  CHECK(config_of(own).find("\"classifier_dropout\": 0.4") != std::string::npos);
  CHECK(config_of(shared).find("\"classifier_dropout\": null") != std::string::npos);
  CHECK(config_of(read("")).find("classifier_dropout") == std::string::npos);
  models::set_dropout(own, 0.3);
  models::set_dropout(shared, 0.3);
  CHECK((head(own) == 0.3 && !head(shared)));
  CHECK((models::common(own).dropout == 0.3 && models::common(own).attention_dropout == 0.3));
  models::ModelSpec modern = small_modernbert(Task::classify, Form::dense), gpt2 = small_gpt2(Form::dense, true),
                    llama = small_decoder(Form::dense, true);
  for (models::ModelSpec* spec : {&modern, &gpt2, &llama}) models::set_dropout(*spec, 0);
  CHECK(head(modern) == 0);
  CHECK(std::get<models::DecoderSpec>(gpt2).embedding_dropout == 0);
  models::set_dropout(llama, 0.3);
  CHECK(std::get<models::DecoderSpec>(llama).embedding_dropout == 0);  // Llama's words have none
}

TEST_CASE("every real number of a config has bounds, and whole numbers stay exact") {
  const std::string text = config_of(small_encoder(false, Task::classify, Form::tt));
  const auto with = [&](const std::string& key, const std::string& value) {
    const std::size_t at = text.find("\"" + key + "\": ") + key.size() + 4;
    return text.substr(0, at) + value + text.substr(text.find_first_of(",\n", at));
  };
  for (const char* bad : {"-1", "0", "1e-40", "2", "1e308", "1e999", "\"1e-12\""}) {
    INFO(bad);
    CHECK_THROWS_AS(models::parse_config_json(with("layer_norm_eps", bad), "c.json"), InputError);
  }
  CHECK_NOTHROW(models::parse_config_json(with("layer_norm_eps", "1e-5"), "c.json"));
  for (const char* key : {"hidden_dropout_prob", "attention_probs_dropout_prob"})
    for (const char* bad : {"-0.1", "1", "1e308"})
      CHECK_THROWS_AS(models::parse_config_json(with(key, bad), "c.json"), InputError);
  for (const char* bad : {"-0.1", "1", "1e308"})
    CHECK_THROWS_WITH(
        models::parse_config_json(replaced(text, "{", fmt::format("{{\"classifier_dropout\": {},", bad)), "c.json"),
        Catch::Contains("c.json: [model] dropout") && Catch::Contains("of the head"));
  for (const char* bad : {"9223372036854775807", "-9223372036854775808", "18446744073709551615", "1152921504606846976"})
    for (const char* key : {"pad_token_id", "max_position_embeddings", "hidden_size"}) {
      INFO(key << " " << bad);
      CHECK_THROWS_WITH(models::parse_config_json(with(key, bad), "c.json"),
                        Catch::Contains("no size or id is that large"));
    }
}

TEST_CASE("a config of 4,096 layers becomes a model within seconds") {
  EncoderSpec spec = small_encoder(false, Task::classify, Form::dense);
  spec.layers = 4096;
  const std::clock_t start = std::clock();
  const auto model = models::make_model(spec, DType::f32);
  CHECK(model->parameters().all().size() > 4096 * 16);
  CHECK(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC < 5);
}

TEST_CASE("config: ranks of a checkpoint may only be smaller than the model's") {
  models::Spec spec = small_encoder(false, Task::classify, Form::tt);
  REQUIRE_FALSE(spec.forms.empty());
  const auto& [name, form] = *spec.forms.begin();
  const std::vector<std::int64_t> ranks = form.layout.ranks;
  REQUIRE(ranks.size() > 2);
  const auto refused = [&](const std::string& weight, const std::vector<std::int64_t>& row) {
    CHECK_THROWS_WITH(models::apply_ranks(spec, {{weight, row}}),
                      Catch::Contains(weight) && Catch::Contains("the checkpoint is damaged"));
  };
  refused("nothing", ranks);
  refused(name, {});
  refused(name, {ranks.begin(), ranks.end() - 1});
  for (const std::int64_t wrong : {std::int64_t{-1}, ranks[1] + 1, std::int64_t{1} << 62}) {
    std::vector<std::int64_t> row = ranks;
    row[1] = wrong;
    refused(name, row);
  }
  std::vector<std::int64_t> ends = ranks;
  ends.back() = 0;
  refused(name, ends);
  std::vector<std::int64_t> fallen = ranks;
  fallen[1] = 1;
  models::apply_ranks(spec, {{name, fallen}});
  CHECK(spec.forms.at(name).layout.ranks == fallen);
}

TEST_CASE("config: options build the preset, with exceptions by name") {
  const OptionTable options = table();
  const auto spec_of = [&](std::vector<std::string> words) {
    const ParsedCommand command =
        parse_command(options, std::move(words), [](const std::string&) -> const char* { return nullptr; });
    return models::spec_from_options(command.values, {});
  };
  CHECK(models::make_model(spec_of({"--model", "mnli-6enc"}), DType::f32)->parameters().count() == 1485795);
  CHECK(models::make_model(spec_of({"--model", "mnli-6enc", "--form", "dense"}), DType::f32)->parameters().count() ==
        66957315);
  const models::Spec mixed = models::common(
      spec_of({"--layer", "*.query=rank:8", "--layer", "*layer.0.output.dense=form:dense", "--modes", "16x16|16x16"}));
  CHECK(mixed.form_of("bert.encoder.layer.1.attention.self.query").layout.ranks ==
        std::vector<std::int64_t>{1, 8, 8, 8, 1});
  CHECK(mixed.form_of("bert.encoder.layer.0.output.dense").dense());
  CHECK(mixed.form_of("bert.encoder.layer.1.output.dense").storage == layers::Storage::chain);
  CHECK_THROWS_WITH(spec_of({"--modes", "16x16|16x17"}), Catch::Contains("no weight has that size"));
  CHECK_THROWS_WITH(spec_of({"--layer", "*.nothing=rank:8"}), Catch::Contains("no weight is named like"));
  CHECK_THROWS_WITH(spec_of({"--layer", "*.query=modes:3x5|4x4"}),
                    Catch::Contains("do not describe a weight of 256 x 256"));
  CHECK_THROWS_WITH(spec_of({"--rank", "1000"}), Catch::Contains("exceeds the largest possible"));
  CHECK_THROWS_WITH(spec_of({"--model", "mnli-6en"}), Catch::Contains("mnli-6enc"));
  CHECK_THROWS_WITH(spec_of({"--key-heads", "2"}),
                    Catch::Contains("--key-heads is for decoders, and encoder-small is"));
  CHECK_THROWS_WITH(spec_of({"--model", "llama-6m", "--patch", "4"}), Catch::Contains("is for vision transformers"));
  CHECK_THROWS_WITH(spec_of({"--model", "dlrm-small", "--layers", "2"}),
                    Catch::Contains("--layers is for transformers, and dlrm-small is a model of clicks"));
  CHECK_THROWS_WITH(spec_of({"--model", "vit-mini", "--tt-rows", "2"}), Catch::Contains("is for models with tables"));
  CHECK_THROWS_WITH(spec_of({"--model", "llama-6m", "--no-pre-norm"}), Catch::Contains("--pre-norm is for encoders"));
  CHECK_THROWS_WITH(spec_of({"--heads", "3"}), Catch::Contains("not a multiple"));
}

TEST_CASE("config: the model of code has its number of parameters, dense and in TT form") {
  const OptionTable options = table();
  const auto model_of = [&](std::vector<std::string> words) {
    const ParsedCommand command =
        parse_command(options, std::move(words), [](const std::string&) -> const char* { return nullptr; });
    models::DataFacts facts;
    facts.task = Task::mlm;
    return models::make_model(models::spec_from_options(command.values, facts), DType::f32);
  };
  const std::string name = "codebert-large-tt";
  CHECK(model_of({"--model", name, "--form", "dense"})->parameters().count() == 357189408);
  const auto tt = model_of({"--model", name});
  // 24 (4 x 82,432 + 2 x 442,880) entries of cores in place of 24 x 12 x 1024^2, and 24 (4 x 224 + 2 x 416) diagonals.
  CHECK(tt->parameters().count() == 357189408 - 24 * 12 * 1048576 + 24 * (4 * 82432 + 2 * 442880));
  CHECK(tt->parameters().count() == 84371232);
  CHECK(tt->parameters().rank_entries() == 41472);
  CHECK(tt->parameters_dense() == 357189408);
  const auto small = model_of({"--model", "code-small"}), thin = model_of({"--model", "code-small", "--rank", "8"});
  CHECK(small->parameters_dense() == 7042304);
  CHECK(thin->parameters().count() < small->parameters().count());
  CHECK(small->parameters().find("bert.embeddings.word_embeddings.weight") != nullptr);
}

TEST_CASE("config: reading a decoder's config.json back builds the same model, and errors name the key") {
  for (const bool tied : {false, true})
    for (const Form form : {Form::dense, Form::tt, Form::lowrank}) {
      const std::string text = config_of(small_decoder(form, tied));
      CHECK(config_of(models::parse_config_json(text, "config.json")) == text);
    }
  const std::string text = config_of(small_decoder(Form::dense, false));
  const auto parsed = [&](const std::string& from, const std::string& to) {
    return std::get<models::DecoderSpec>(models::parse_config_json(replaced(text, from, to), "c.json"));
  };
  const auto refused = [&](const std::string& from, const std::string& to, const std::string& words) {
    CHECK_THROWS_WITH(parsed(from, to), Catch::Contains("c.json") && Catch::Contains(words));
  };
  refused("\"hidden_act\": \"silu\"", "\"hidden_act\": \"gelu\"", "hidden_act is 'gelu'");
  refused("LlamaForCausalLM", "LlamaForTokenClassification", "LlamaForTokenClassification");
  refused("\"num_key_value_heads\": 2", "\"num_key_value_heads\": 3", "not a multiple of num_key_value_heads 3");
  refused("\"head_dim\": 4", "\"head_dim\": 5", "head_dim 5 is odd");
  const auto refused_rope = [&](const std::string& rope, const std::string& words) {
    refused("\"mlp_bias\": false", "\"rope_scaling\": " + rope, words);
  };
  refused_rope(R"({"rope_type": "llama3", "factor": 8.0})", "'low_freq_factor'");
  refused_rope(R"({"rope_type": "dynamic", "factor": 8.0})", "type 'dynamic'; default, linear, llama3 and yarn");
  refused_rope(R"({"type": "linear", "factor": 0.5})", "rope_scaling.factor is 0.5; it must lie between 1 and");
  refused_rope(R"({"type": "yarn", "factor": 4, "mscale": 1})", "rope_scaling.mscale is not supported");
  refused_rope(R"({"type": "yarn", "factor": 4, "beta_fast": 1})", "a ramp from 1 to 1 turns");
  refused_rope("7", "rope_scaling is 7; it must be an object or null");
  refused("\"mlp_bias\": false", "\"partial_rotary_factor\": 0.5", "partial_rotary_factor is 0.5");
  CHECK(
      parsed("\"mlp_bias\": false", "\"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 500.0}").theta ==
      500);
  CHECK(parsed("\"mlp_bias\": false", "\"rope_scaling\": null").theta == 100);
  // The first context of YaRN and Llama 3 stands in the object, beside it, or is the model's.
  const auto context = [&](const std::string& keys) { return parsed("\"mlp_bias\": false", keys).scaling.context; };
  const std::string yarn = R"("rope_scaling": {"rope_type": "yarn", "factor": 4.0)",
                    beside = R"("original_max_position_embeddings": 4, )",
                    inside = R"(, "original_max_position_embeddings": 6)";
  CHECK(context(yarn + "}") == 8);
  CHECK(context(yarn + inside + "}") == 6);
  CHECK(context(beside + yarn + "}") == 4);
  CHECK(context(beside + yarn + inside + "}") == 4);
  CHECK(context(beside + R"("rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, )" +
                R"("high_freq_factor": 4.0})") == 4);
  refused("\"mlp_bias\": false", R"("original_max_position_embeddings": 0, )" + yarn + "}",
          "c.json: original_max_position_embeddings is 0; it must lie between 1 and");
  CHECK(parsed("\"eos_token_id\": 2", "\"eos_token_id\": [2, 7]").end == std::vector<std::int64_t>{2, 7});
}

TEST_CASE("config: reading GPT-2's config.json back builds the same model, and errors name the key") {
  for (const Form form : {Form::dense, Form::tt, Form::lowrank}) {
    const std::string text = config_of(small_gpt2(form, form != Form::tt));
    CHECK(config_of(models::parse_config_json(text, "config.json")) == text);
  }
  const std::string text = config_of(small_gpt2(Form::dense, true));
  const auto refused = [&](const std::string& from, const std::string& to, const std::string& words) {
    CHECK_THROWS_WITH(models::parse_config_json(replaced(text, from, to), "c.json"),
                      Catch::Contains("c.json") && Catch::Contains(words));
  };
  refused("gelu_new", "relu", "activation_function is 'relu'");
  refused("GPT2LMHeadModel", "GPT2ForTokenClassification", "architecture GPT2ForTokenClassification is not supported");
  CHECK(config_of(models::parse_config_json(replaced(text, "GPT2LMHeadModel", "GPT2Model"), "config.json")) == text);
  refused("\"n_head\": 4", "\"n_head\": 5", "n_embd 12 is not a multiple of n_head 5");
  refused("\"n_head\": 4", "\"n_head\": 4, \"scale_attn_weights\": false", "scale_attn_weights is false");
  refused("\"n_head\": 4", "\"n_head\": 4, \"scale_attn_by_inverse_layer_idx\": true",
          "scale_attn_by_inverse_layer_idx is true");
}

TEST_CASE("config: the window of Qwen's layers") {
  const std::string text = config_of(small_decoder(Form::dense, false));
  const auto qwen = [&](const std::string& keys) {
    const std::string renamed =
        replaced(replaced(text, "\"llama\"", "\"qwen3\""), "LlamaForCausalLM", "Qwen3ForCausalLM");
    return std::get<models::DecoderSpec>(
        models::parse_config_json(replaced(renamed, "\"mlp_bias\": false", keys), "c.json"));
  };
  CHECK(qwen("\"sliding_window\": 3").window == 0);
  const std::string on = "\"use_sliding_window\": true, \"sliding_window\": 3";
  CHECK(qwen(on).window == 0);  // from layer 28 on
  CHECK(qwen(on + ", \"max_window_layers\": 1").windowed == std::vector<bool>{false, true});
  CHECK(qwen(on + R"(, "layer_types": ["sliding_attention", "full_attention"])").windowed ==
        std::vector<bool>{true, false});
  CHECK_THROWS_WITH(qwen(on + R"(, "layer_types": ["sliding_attention"])"), Catch::Contains("the types of 2 layers"));
  CHECK_THROWS_WITH(qwen(on + R"(, "layer_types": ["linear_attention", "full_attention"])"),
                    Catch::Contains("layer_types[0] is \"linear_attention\""));
}

TEST_CASE("config: a Mistral config without an effective window equals a Llama config, with Mistral's defaults") {
  const std::string text = config_of(small_decoder(Form::dense, false));
  const auto mistral = [&](const std::string& from, const std::string& to) {
    const std::string renamed =
        replaced(replaced(text, "\"llama\"", "\"mistral\""), "LlamaForCausalLM", "MistralForCausalLM");
    return std::get<models::DecoderSpec>(models::parse_config_json(replaced(renamed, from, to), "c.json"));
  };
  CHECK(config_of(mistral("\"mlp_bias\": false", "\"mlp_bias\": false, \"sliding_window\": null")) == text);
  CHECK(config_of(mistral("\"mlp_bias\": false", "\"mlp_bias\": false, \"sliding_window\": 1000000")) == text);
  const models::DecoderSpec near = mistral("\"mlp_bias\": false", "\"sliding_window\": 2");
  CHECK((near.window == 2 && near.windowed == std::vector<bool>{true, true}));
  CHECK(near.family == models::DecoderFamily::mistral);
  CHECK(config_of(near).find("layer_types") == std::string::npos);
  const models::DecoderSpec some =
      mistral("\"mlp_bias\": false", R"("sliding_window": 2, "layer_types": ["full_attention", "sliding_attention"])");
  CHECK((some.window == 2 && some.windowed == std::vector<bool>{false, true}));
  const auto again = std::get<models::DecoderSpec>(models::parse_config_json(config_of(some), "c.json"));
  CHECK((again.family == some.family && again.windowed == some.windowed));
  CHECK(mistral("\"mlp_bias\": false", R"("sliding_window": 2, "layer_types": ["full_attention", "full_attention"])")
            .window == 0);
  CHECK_THROWS_WITH(mistral("\"mlp_bias\": false", "\"sliding_window\": 0"),
                    Catch::Contains("sliding_window is 0; it must be at least 1"));
  CHECK_THROWS_WITH(mistral("MistralForCausalLM", "MistralForTokenClassification"),
                    Catch::Contains("MistralForTokenClassification"));
  // Without the keys, the window is Mistral's default, 4096, and so is the number of key heads, 8.
  CHECK(config_of(mistral("\"mlp_bias\": false,", "")).find("llama") != std::string::npos);
  CHECK_THROWS_WITH(mistral("\"num_key_value_heads\": 2,", ""), Catch::Contains("num_key_value_heads 8"));
  CHECK(mistral("\"num_key_value_heads\": 2", "\"num_key_value_heads\": null").key_heads == 4);
}
