// Whole vision transformers: parameter counts, gradients by the complex step, logits of transformers, files.
#include "models/vit/vit.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "kernels/backend.h"
#include "lib/engine/weights_file.h"
#include "models/vit/vit_config.h"
#include "tests/core/temporary_folder.h"
#include "tests/models/families.h"
#include "tests/models/small_models.h"
#include "tests/models/vit_reference.h"

using namespace comera;
using models::Form;
using models::VitSpec;

namespace {

std::int64_t dense_parameters(const char* preset) {
  return models::make_model(models::find_preset(preset).spec, DType::f32)->parameters().count();
}

std::unique_ptr<engine::Engine> open_engine(const plan::Machine& machine, const std::string& folder) {
  auto engine = std::make_unique<engine::Engine>(
      machine, models::factory_of(models::spec_from_folder(folder), machine.dtype), engine::EngineOptions{});
  engine::check_weights(folder, engine->model());
  engine->allocate();
  engine::load_weights(folder, engine->weights());
  engine->weights_changed();
  return engine;
}

// The logits of the images of the reference: pixel i of all is sin(.3 i + .01 i^2).
std::vector<double> logits_of(const plan::Machine& machine, const std::string& folder) {
  const auto engine = open_engine(machine, folder);
  data::Batch batch = engine->model().planning_batch(2, 0, 0);
  const auto pixels = batch["pixel_values"].as<float>();
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    const auto place = static_cast<double>(i);
    pixels[i] = static_cast<float>(std::sin(0.3 * place + 0.01 * place * place));
  }
  const engine::Scores scores = engine->evaluate(batch);
  return {scores.logits.begin(), scores.logits.end()};
}

double worst(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

}  // namespace

// DeiT-Ti has 5.7 million parameters (Touvron et al. 2020, arXiv 2012.12877, table 1), in detail: patches, class token,
// positions, 12 blocks of 444,864, the last norm, the classifier.
TEST_CASE("vit: the presets have the parameters of their sizes") {
  constexpr std::int64_t block = 4 * (192 * 192 + 192) + 2 * 192 * 768 + 768 + 192 + 4 * 192;
  CHECK(block == 444864);
  CHECK(dense_parameters("vit-tiny") == 768 * 192 + 192 + 192 + 197 * 192 + 12 * block + 2 * 192 + 193 * 1000);
  CHECK(dense_parameters("vit-tiny") == 5717416);
  CHECK(dense_parameters("vit-mini") == 16 * 192 + 192 + 192 + 50 * 192 + 6 * block + 2 * 192 + 193 * 10);
  CHECK(dense_parameters("vit-mini") == 2684554);
}

TEST_CASE("vit: every gradient equals that of the complex step, and bits are equal under every recompute policy") {
  for (const Form form : {Form::dense, Form::tt, Form::lowrank}) {
    DYNAMIC_SECTION(models::name_of(form)) {
      const VitSpec spec = small_vit(form, form == Form::lowrank ? 1 : 3);
      CHECK(check_complex_step(spec) < 1e-10);
      check_recompute_bits(spec);
    }
  }
}

TEST_CASE("vit: every instruction set has the precision of plain float") {
  for_every_instruction_set([](const char*, const kernels::Backend& cpu) {
    for (const Form form : {Form::dense, Form::tt}) check_single_precision(small_vit(form), cpu);
  });
}

// Their logits are in double and below 2; the engine's outputs are float, so half a unit in the last place is 2^-24. In
// float, the error is at most four times that of the reference kernels in float.
TEST_CASE("vit: logits of transformers, from its files' names and shapes") {
  const TemporaryFolder folder;
  const std::string made = folder.path();
  families::write_folder(made, vit_reference::config);
  const std::vector<double> theirs(std::begin(vit_reference::logits), std::end(vit_reference::logits));
  const plan::Machine doubles{&kernels::reference_backend(), DType::f64, nullptr},
      floats{&kernels::reference_backend(), DType::f32, nullptr};
  const std::vector<double> exact = logits_of(doubles, made);
  CHECK(worst(exact, theirs) < 0x1p-24 + 1e-11);
  const double rounding = worst(logits_of(floats, made), exact);
  CHECK(rounding > 0);
  for_every_instruction_set([&](const char*, const kernels::Backend& cpu) {
    CHECK(worst(logits_of({&cpu, DType::f32, nullptr}, made), exact) <= 4 * rounding);
  });
}

TEST_CASE("vit: config.json reads back to the same text") {
  for (const Form form : {Form::dense, Form::tt}) {
    const VitSpec spec = small_vit(form);
    const std::string text = models::make_model(spec, DType::f32)->config_json();
    const models::ModelSpec read = models::parse_config_json(text, "config.json");
    CHECK(models::make_model(read, DType::f32)->config_json() == text);
  }
}

TEST_CASE("vit: other tasks and contradictory sizes are refused") {
  VitSpec spec = small_vit(Form::dense);
  CHECK_THROWS_WITH(models::with_head(spec, models::Task::classify, {"a", "b"}), Catch::Contains("use --task image"));
  spec.patch = 3;
  CHECK_THROWS_WITH(models::check(spec), Catch::Contains("image_size 4 is not a multiple of patch_size 3"));
  spec.patch = 0;
  CHECK_THROWS_WITH(models::check(spec), Catch::Contains("patch_size is 0"));
  spec.patch = 2, spec.channels = 2;
  CHECK_THROWS_WITH(models::check(spec), Catch::Contains("num_channels is 2"));
  spec.channels = 1, spec.labels = {"a"};
  CHECK_THROWS_WITH(models::check(spec), Catch::Contains("at least two labels"));
  models::EncoderSpec encoder = small_encoder(false, models::Task::classify, Form::dense);
  encoder.task = models::Task::image;
  CHECK_THROWS_WITH(models::check(encoder), Catch::Contains("use --model vit-mini"));
}
