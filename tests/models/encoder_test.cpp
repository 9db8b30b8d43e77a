// Whole encoders: parameter counts of the paper, gradients by the complex step, bitwise equality under every recompute
// policy.
#include "models/encoder/encoder.h"

#include <catch2/catch.hpp>
#include <complex>

#include "tests/models/small_models.h"

using namespace comera;
using models::EncoderSpec;
using models::Form;
using models::Task;

namespace {

struct Variant {
  const char* name;
  bool pre_norm;
  Task task;
  Form form;
  bool tensorized = false;  // unequal modes, sorted inputs, a gauge, no diagonals
  models::EncoderFamily family = models::EncoderFamily::bert;

  EncoderSpec spec() const {
    if (family == models::EncoderFamily::mpnet) return small_mpnet(task, form);
    if (family == models::EncoderFamily::modernbert) return small_modernbert(task, form, task == Task::regression);
    EncoderSpec spec = tensorized ? tensorized_encoder(pre_norm, task) : small_encoder(pre_norm, task, Form::dense);
    if (tensorized) return spec;
    spec.family = family;
    if (family == models::EncoderFamily::roberta) spec.types = 1, spec.pad = 1;
    if (family == models::EncoderFamily::distilbert) spec.types = 0, spec.head_dropout = 0.3;
    apply_small_forms(spec, form);
    return spec;
  }
};

const Variant variants[] = {
    {"post-LN classifier, TT", false, Task::classify, Form::tt},
    {"pre-LN classifier, TT", true, Task::classify, Form::tt},
    {"post-LN regression, TT", false, Task::regression, Form::tt},
    {"pre-LN regression, dense", true, Task::regression, Form::dense},
    {"post-LN mlm, TT with a TTM table", false, Task::mlm, Form::tt},
    {"pre-LN mlm, dense", true, Task::mlm, Form::dense},
    {"post-LN classifier, low rank", false, Task::classify, Form::lowrank},
    {"post-LN mlm, as tensorize leaves it", false, Task::mlm, Form::tt, true},
    {"RoBERTa classifier, TT", false, Task::classify, Form::tt, false, models::EncoderFamily::roberta},
    {"DistilBERT classifier, TT", false, Task::classify, Form::tt, false, models::EncoderFamily::distilbert},
    {"DistilBERT mlm, dense", false, Task::mlm, Form::dense, false, models::EncoderFamily::distilbert},
    {"MPNet classifier, TT", false, Task::classify, Form::tt, false, models::EncoderFamily::mpnet},
    {"MPNet mlm, dense", false, Task::mlm, Form::dense, false, models::EncoderFamily::mpnet},
    {"ModernBERT classifier, TT", true, Task::classify, Form::tt, false, models::EncoderFamily::modernbert},
    {"ModernBERT mlm, dense", true, Task::mlm, Form::dense, false, models::EncoderFamily::modernbert},
    {"ModernBERT regression with biases, low rank", true, Task::regression, Form::lowrank, false,
     models::EncoderFamily::modernbert},
};

}  // namespace

TEST_CASE("encoder: every gradient equals that of the complex step") {
  for (const Variant& variant : variants) {
    DYNAMIC_SECTION(variant.name) {
      const EncoderSpec spec = variant.spec();
      CHECK(check_complex_step(spec) < 1e-10);
    }
  }
}

TEST_CASE("encoder: gradients are bitwise equal under every recompute policy") {
  for (const Variant& variant : variants) {
    DYNAMIC_SECTION(variant.name) {
      const EncoderSpec spec = variant.spec();
      check_recompute_bits(spec);
    }
  }
}

TEST_CASE("encoder: the loss of a regression is the mean squared error over texts with a known number") {
  ReferenceRun<double> run(small_encoder(false, Task::regression, Form::dense));
  const double with_one_unknown = run.loss();
  auto scores = run.batch["scores"].as<float>();
  double sum = 0;
  for (const std::size_t b : {0, 2}) {
    const double before = run.loss();
    scores[b] += 1;
    // (p - s - 1)^2 - (p - s)^2 = 1 - 2 (p - s), over two texts.
    const double residual = (1 - 2 * (run.loss() - before)) / 2;
    scores[b] -= 1;
    sum += residual * residual / 2;
  }
  CHECK(with_one_unknown == Approx(sum).epsilon(1e-9));
  scores[0] = scores[2] = data::Table::no_score;
  CHECK(run.loss() == 0);
}

TEST_CASE("encoder: the six-encoder transformer has the paper's number of parameters, dense and in TT form") {
  auto spec = std::get<EncoderSpec>(models::find_preset("mnli-6enc").spec);
  const auto dense = models::make_encoder(spec, DType::f32);
  CHECK(dense->parameters().count() == 66957315);
  CHECK(dense->parameters_dense() == 66957315);
  models::apply_forms(spec, models::weight_sites(spec), {});
  const auto tt = models::make_encoder(spec, DType::f32);
  CHECK(tt->parameters().count() == 1485795);
  CHECK(tt->parameters().rank_entries() == 4362);
  CHECK(tt->parameters_dense() == 66957315);
}

TEST_CASE("encoder: a layer with all ranks removed gives its bias") {
  EncoderSpec spec = small_encoder(false, Task::classify, Form::tt);
  layers::RankTable ranks;
  ranks["bert.encoder.layer.0.intermediate.dense"] = {1, 0, 0, 0, 1};
  models::apply_ranks(spec, ranks);
  ReferenceRun<double> run(spec);
  run.step(layers::Recompute::cheap);
  CHECK(std::isfinite(run.state.loss[0]));
  CHECK(run.model->parameters().find("bert.encoder.layer.0.intermediate.dense.tt.0") == nullptr);
  const layers::Parameter* bias = run.model->parameters().find("bert.encoder.layer.0.intermediate.dense.bias");
  REQUIRE(bias);
  double sum = 0;
  for (std::int64_t i = 0; i < bias->shape.elements(); ++i) sum += std::abs(run.gradient(bias->index, i));
  CHECK(sum > 0);
}

TEST_CASE("encoder: gradients of the CPU backend are within single precision of the reference in double") {
  for_every_instruction_set([](const char* isa, const kernels::Backend& cpu) {
    for (const Variant& variant : variants) {
      DYNAMIC_SECTION(isa << ", " << variant.name) { check_single_precision(variant.spec(), cpu); }
    }
  });
}
