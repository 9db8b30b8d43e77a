// Decoders of several families: logits equal those of transformers (values from
// tests/models/interop/families_reference.py), and a saved config.json builds the same model.
#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "kernels/backend.h"
#include "lib/engine/engine.h"
#include "lib/engine/generate.h"
#include "lib/engine/weights_file.h"
#include "lib/io/safetensors.h"
#include "models/architecture.h"
#include "models/decoder/decoder_config.h"
#include "tests/core/temporary_folder.h"
#include "tests/models/families_reference.h"

using namespace comera;

namespace {

// The weights of the reference, by number of the tensor in the order of names.
void write_weights(const std::string& path, const layers::Model& model) {
  std::map<std::string, const layers::Parameter*> by_name;
  for (const auto& parameter : model.parameters().all()) by_name[parameter.name] = &parameter;
  std::map<std::string, std::vector<float>> values;
  std::vector<io::TensorToWrite> tensors;
  int number = 0;
  for (const auto& [name, parameter] : by_name) {
    io::FileShape shape;
    for (int d = 0; d < parameter->shape.dims(); ++d) shape.push_back(parameter->shape[d]);
    // Files have linear weights as [out, in].
    if (shape.size() == 2 && name.find("embed_tokens") == name.npos && name.find("lm_head") == name.npos)
      std::swap(shape[0], shape[1]);
    std::vector<float>& out = values[name];
    for (std::int64_t i = 0; i < parameter->shape.elements(); ++i) {
      const double wave = std::sin(0.37 * static_cast<double>(i + 1) + number);
      const bool norm = shape.size() == 1 && name.find("norm") != name.npos;
      out.push_back(static_cast<float>(norm ? 1 + 0.5 * wave : (shape.size() > 1 ? 0.2 : 0.5) * wave));
    }
    tensors.push_back({name, io::StoredType::F32, shape, out.data()});
    ++number;
  }
  io::write_safetensors(path, tensors, {});
}

struct Opened {
  models::ModelSpec spec;
  std::unique_ptr<engine::Engine> engine;
};

Opened open(const families::Family& family, const TemporaryFolder& folder) {
  Opened opened{models::parse_config_json(family.config, "config.json"), nullptr};
  const plan::Machine machine{&kernels::reference_backend(), DType::f64, nullptr};
  opened.engine = std::make_unique<engine::Engine>(machine, models::factory_of(opened.spec, machine.dtype),
                                                   engine::EngineOptions{});
  opened.engine->allocate();
  write_weights(folder / "model.safetensors", opened.engine->model());
  engine::load_weights(folder / "model.safetensors", opened.engine->weights());
  return opened;
}

}  // namespace

TEST_CASE("families: logits are those of transformers") {
  for (const families::Family& family : families::all) {
    INFO(family.name);
    const TemporaryFolder folder;
    const Opened opened = open(family, folder);
    const data::Ids ids(std::begin(families::ids), std::end(families::ids));
    data::Batch batch;
    engine::fill_generation_batch(batch, ids, 0, 0);
    auto rows = batch.add("logit_rows", DType::i32, {std::ssize(families::rows)}).as<std::int32_t>();
    std::copy(std::begin(families::rows), std::end(families::rows), rows.begin());
    const engine::Scores scores = opened.engine->evaluate(batch);
    double worst = 0;
    for (std::size_t r = 0; r < std::size(families::rows); ++r)
      for (std::size_t c = 0; c < 29; ++c)
        worst = std::max(worst, std::abs(scores.logits[r * 29 + c] - family.logits[r][c]));
    CHECK(worst < 1e-6);  // logits of the engine are float; they are below 8
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
  }
}
