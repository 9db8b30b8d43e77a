// Models of several families: outputs equal those of transformers (values from
// tests/models/interop/families_reference.py), also with a cache, and a saved config.json builds the same model.
#include "tests/models/families.h"

#include <catch2/catch.hpp>

#include "kernels/backend.h"
#include "lib/engine/engine.h"
#include "lib/engine/generate.h"
#include "lib/engine/weights_file.h"
#include "models/decoder/decoder_config.h"
#include "models/encoder/encoder_config.h"
#include "tests/core/temporary_folder.h"

using namespace comera;

namespace {

struct Opened {
  models::ModelSpec spec;
  std::unique_ptr<engine::Engine> engine;
};

Opened open(const char* config, const TemporaryFolder& folder) {
  Opened opened{families::write_folder(folder.path(), config), nullptr};
  const plan::Machine machine{&kernels::reference_backend(), DType::f64, nullptr};
  opened.engine = std::make_unique<engine::Engine>(machine, models::factory_of(opened.spec, machine.dtype),
                                                   engine::EngineOptions{.fetch_hidden = true});
  opened.engine->allocate();
  engine::load_weights(folder / "model.safetensors", opened.engine->weights());
  return opened;
}

// The outputs of the engine are float, and those of these models are below 8: half a unit in the last place is 2^-22.
constexpr double rounding = 1e-6;

const data::Ids& text() {
  static const data::Ids ids(std::begin(families::ids), std::end(families::ids));
  return ids;
}

}  // namespace

TEST_CASE("families: logits are those of transformers") {
  for (const families::Family& family : families::all) {
    INFO(family.name);
    const TemporaryFolder folder;
    const Opened opened = open(family.config, folder);
    const std::vector<double> logits = families::decoder_answers(*opened.engine);
    double worst = 0;
    for (std::size_t r = 0; r < std::size(families::rows); ++r)
      for (std::size_t c = 0; c < 29; ++c) worst = std::max(worst, std::abs(logits[r * 29 + c] - family.logits[r][c]));
    CHECK(worst < rounding);
  }
}

TEST_CASE("families: with a cache, logits are those of transformers") {
  for (const families::Family& family : families::all) {
    INFO(family.name);
    const TemporaryFolder folder;
    const Opened opened = open(family.config, folder);
    const auto capacity = static_cast<std::int64_t>(text().size());
    opened.engine->open_cache(1, capacity);
    std::size_t compared = 0;
    std::int64_t read = 0;
    // Three ids together, then one at a time.
    for (std::int64_t known = 3; known <= capacity; ++known) {
      data::Batch batch;
      engine::fill_generation_batch(batch, std::span(text()).first(static_cast<std::size_t>(known)), read, capacity);
      const engine::Scores scores = opened.engine->decode(batch);
      read = known;
      const auto row = std::find(std::begin(families::rows), std::end(families::rows), known - 1);
      if (row == std::end(families::rows)) continue;
      ++compared;
      double worst = 0;
      for (std::size_t c = 0; c < 29; ++c)
        worst = std::max(worst, std::abs(scores.logits[c] - family.logits[row - std::begin(families::rows)][c]));
      CHECK(worst < rounding);
    }
    CHECK(compared == 2);
  }
}

TEST_CASE("families: a saved config.json builds the same model") {
  for (const families::Family& family : families::all) {
    INFO(family.name);
    const auto spec = std::get<models::DecoderSpec>(models::parse_config_json(family.config, "config.json"));
    const auto model = models::make_model(models::ModelSpec(spec), DType::f32);
    const auto again =
        std::get<models::DecoderSpec>(models::parse_config_json(models::to_config_json(spec, *model), "config.json"));
    CHECK(again.family == spec.family);
    CHECK(again.theta == spec.theta);
    CHECK(again.scaling.kind == spec.scaling.kind);
    CHECK(again.scaling.factor == spec.scaling.factor);
    CHECK(again.scaling.amplitude == spec.scaling.amplitude);
    CHECK(
        (again.qkv_bias == spec.qkv_bias && again.output_bias == spec.output_bias && again.mlp_bias == spec.mlp_bias));
    CHECK((again.head_norms == spec.head_norms && again.head_size == spec.head_size));
    CHECK((again.window == spec.window && again.windowed == spec.windowed));
    CHECK((again.embedding_dropout == spec.embedding_dropout && again.dropout == spec.dropout));
  }
}

TEST_CASE("families: answers of encoders are those of transformers") {
  for (const families::EncoderFamily& family : families::encoders) {
    INFO(family.name);
    const TemporaryFolder folder;
    const Opened opened = open(family.config, folder);
    const std::vector<double> answers = families::encoder_answers(models::common(opened.spec), *opened.engine);
    REQUIRE(answers.size() == family.answers.size());
    double worst = 0;
    for (std::size_t i = 0; i < answers.size(); ++i) worst = std::max(worst, std::abs(answers[i] - family.answers[i]));
    CHECK(worst < rounding);
  }
}

TEST_CASE("families: a saved config.json of an encoder builds the same model") {
  for (const families::EncoderFamily& family : families::encoders) {
    INFO(family.name);
    const auto spec = std::get<models::EncoderSpec>(models::parse_config_json(family.config, "config.json"));
    const auto model = models::make_model(models::ModelSpec(spec), DType::f32);
    const std::string text = models::to_config_json(spec, *model);
    const auto again = std::get<models::EncoderSpec>(models::parse_config_json(text, "config.json"));
    CHECK((again.family == spec.family && again.pre_norm == spec.pre_norm && again.task == spec.task));
    CHECK((again.positions == spec.positions && again.types == spec.types && again.pad == spec.pad));
    CHECK((again.epsilon == spec.epsilon && again.head_dropout == spec.head_dropout));
    const auto second = models::make_model(models::ModelSpec(again), DType::f32);
    CHECK(models::to_config_json(again, *second) == text);
  }
}
