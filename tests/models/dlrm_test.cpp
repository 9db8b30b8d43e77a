// Whole DLRMs: parameter counts, gradients by the complex step, a forward computed from the formulas, files.
#include "models/dlrm/dlrm.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <complex>

#include "models/dlrm/dlrm_config.h"
#include "tests/models/small_models.h"

using namespace comera;
using models::DlrmSpec;
using models::Form;

namespace {

const models::Preset& kaggle() { return models::find_preset("dlrm-kaggle"); }

// The model of a preset with the forms that pretrain chooses.
std::unique_ptr<layers::Model> model_of(const models::Preset& preset, Form form) {
  models::ModelSpec spec = preset.spec;
  models::FormRules rules;
  rules.form = form, rules.rank = preset.rank, rules.embedding_rank = preset.embedding_rank;
  rules.least_rows = preset.least_rows, rules.least_entries = preset.least_entries;
  models::apply_forms(spec, rules);
  return models::make_model(spec, DType::f32);
}

}  // namespace

TEST_CASE("dlrm: every gradient equals that of the complex step, and bits are equal under every recompute policy") {
  for (const Form form : {Form::dense, Form::tt, Form::lowrank}) {
    DYNAMIC_SECTION(models::name_of(form)) {
      const DlrmSpec spec = small_dlrm(form);
      CHECK(check_complex_step(spec) < 1e-10);
      check_recompute_bits(spec);
    }
  }
}

TEST_CASE("dlrm: every instruction set has the precision of plain float") {
  for_every_instruction_set([](const char*, const kernels::Backend& cpu) {
    for (const Form form : {Form::dense, Form::tt}) check_single_precision(small_dlrm(form), cpu);
  });
}

TEST_CASE("dlrm: the loss is that of the formulas") {
  const DlrmSpec spec = small_dlrm(Form::dense);
  ReferenceRun<double> run(spec);
  const auto value = [&](const std::string& name) {
    const layers::Parameter* parameter = run.model->parameters().find(name);
    REQUIRE(parameter != nullptr);
    const auto* data = static_cast<const double*>(parameter->value.data);
    return std::vector<double>(data, data + parameter->shape.elements());
  };
  const auto mlp = [&](std::vector<double> x, const std::vector<models::MlpLayer>& layers, bool open) {
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const std::vector<double> weight = value(layers[i].name + ".weight"), bias = value(layers[i].name + ".bias");
      std::vector<double> y = bias;
      for (std::size_t o = 0; o < y.size(); ++o) {
        for (std::size_t k = 0; k < x.size(); ++k) y[o] += x[k] * weight[k * y.size() + o];
        if (i + 1 < layers.size() || !open) y[o] = std::max(y[o], 0.0);
      }
      x = y;
    }
    return x;
  };
  const auto dense = run.batch["dense"].as<const float>();
  double loss = 0;
  for (std::size_t b = 0; b < 2; ++b) {
    std::vector<std::vector<double>> vectors{mlp({dense[2 * b], dense[2 * b + 1]}, models::bottom_layers(spec), false)};
    for (std::size_t c = 0; c < spec.inputs.categories.size(); ++c) {
      const data::CategoryColumn& column = spec.inputs.categories[c];
      const auto ids = run.batch[("ids." + column.column).c_str()].as<const std::int32_t>();
      const std::vector<double> table = value(models::table_name(c) + ".weight");
      std::vector<double> sum(8);
      const bool bag = column.most > 1 || column.weighted;
      const auto at = [&](std::size_t i) {
        return bag ? run.batch[("offsets." + column.column).c_str()].as<const std::int32_t>()[i]
                   : static_cast<std::int32_t>(i);
      };
      for (std::int32_t i = at(b); i < at(b + 1); ++i)
        for (std::size_t k = 0; k < 8; ++k) {
          const double weight = column.mean ? 1.0 / (at(b + 1) - at(b)) : column.weighted ? (b == 0 ? 0.5 : 2) : 1;
          sum[k] += weight * table[static_cast<std::size_t>(ids[static_cast<std::size_t>(i)]) * 8 + k];
        }
      vectors.push_back(sum);
    }
    std::vector<double> features = vectors[0];
    for (std::size_t i = 1; i < vectors.size(); ++i)
      for (std::size_t j = 0; j < i; ++j) {
        double dot = 0;
        for (std::size_t k = 0; k < 8; ++k) dot += vectors[i][k] * vectors[j][k];
        features.push_back(dot);
      }
    const double z = mlp(features, models::top_layers(spec), true)[0];
    loss += (std::log1p(std::exp(z)) - (b == 0 ? z : 0)) / 2;
  }
  CHECK(run.loss() == Approx(loss).epsilon(1e-6));  // weights.mean are floats
}

TEST_CASE("dlrm-kaggle: 33,762,577 rows of 32; at least 99 times smaller in tensor-train form") {
  const auto dense = model_of(kaggle(), Form::dense), chains = model_of(kaggle(), Form::tt);
  std::int64_t rows = 0;
  for (const auto& column : std::get<DlrmSpec>(kaggle().spec).inputs.categories) rows += column.rows;
  CHECK(rows == 33762577);
  // Tables, 13-512-256-64-32 and 383-512-256-1 with biases.
  const std::int64_t mlps =
      13 * 512 + 512 + 512 * 256 + 256 + 256 * 64 + 64 + 64 * 32 + 32 + 383 * 512 + 512 + 512 * 256 + 256 + 256 + 1;
  CHECK(dense->parameters().count() == rows * 32 + mlps);
  CHECK(chains->parameters_dense() == dense->parameters().count());
  CHECK(dense->parameters().count() >= 99 * chains->parameters().count());
  CHECK(chains->chains().size() == 8 + 3);  // tables of more than 20,000 rows; layers of 65,536 weights or more
}

TEST_CASE("dlrm: config.json reads back to the same text") {
  for (const Form form : {Form::dense, Form::tt}) {
    DlrmSpec spec = small_dlrm(form);
    spec.inputs.label = "click";
    const std::string text = models::make_model(spec, DType::f32)->config_json();
    const models::ModelSpec read = models::parse_config_json(text, "config.json");
    CHECK(models::make_model(read, DType::f32)->config_json() == text);
  }
}

TEST_CASE("dlrm: other tasks and contradictory sizes are refused") {
  DlrmSpec spec = small_dlrm(Form::dense);
  CHECK_THROWS_WITH(models::with_head(spec, models::Task::classify, {"a", "b"}), Catch::Contains("use --task ctr"));
  spec.inputs.categories[0].rows = 0;
  CHECK_THROWS_WITH(models::check(spec), Catch::Contains("rows is 0"));
  spec.inputs.categories.clear();
  CHECK_THROWS_WITH(models::check(spec), Catch::Contains("names no categories"));
}
