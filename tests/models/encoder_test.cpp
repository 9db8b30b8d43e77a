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
    {"post-LN sets of labels, TT", false, Task::multilabel, Form::tt},
    {"post-LN labels of words, TT", false, Task::tag, Form::tt},
    {"RoBERTa labels of words, dense", false, Task::tag, Form::dense, false, models::EncoderFamily::roberta},
    {"DistilBERT labels of words, TT", false, Task::tag, Form::tt, false, models::EncoderFamily::distilbert},
    {"ModernBERT labels of words, TT", true, Task::tag, Form::tt, false, models::EncoderFamily::modernbert},
    {"post-LN pairs, TT", false, Task::pairs, Form::tt},
    {"pre-LN pairs, dense", true, Task::pairs, Form::dense},
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

// The loss from the vectors themselves, by the formula.
TEST_CASE("encoder: the loss of pairs is the cross-entropy of twenty times the cosines") {
  EncoderSpec spec = small_encoder(false, Task::pairs, Form::dense);
  spec.dropout = spec.attention_dropout = 0;
  ReferenceRun<double> run(spec);
  const std::vector<double> v = run.embedding();
  const auto columns = static_cast<std::size_t>(spec.hidden);
  REQUIRE(v.size() == 4 * columns);
  const auto cosine = [&](std::size_t a, std::size_t b) {
    double both = 0, first = 0, second = 0;
    for (std::size_t j = 0; j < columns; ++j) {
      const double x = v[a * columns + j], y = v[b * columns + j];
      both += x * y, first += x * x, second += y * y;
    }
    return both / std::sqrt(first * second);
  };
  double loss = 0;
  for (const std::size_t i : {0, 1}) {
    const double own = std::exp(20 * cosine(i, 2 + i)), other = std::exp(20 * cosine(i, 3 - i));
    loss -= std::log(own / (own + other)) / 2;
  }
  CHECK(loss > 0);
  CHECK(run.loss() == Approx(loss).epsilon(1e-12));
}

TEST_CASE("encoder: the loss of sets of labels is the mean logistic loss of the known decisions") {
  EncoderSpec spec = small_encoder(false, Task::multilabel, Form::dense);
  spec.dropout = spec.attention_dropout = 0;
  ReferenceRun<double> run(spec);
  const std::vector<double> logits = run.logits();
  const auto sets = run.batch["label_sets"].as<const std::int32_t>();
  REQUIRE(logits.size() == 9);
  double loss = 0;
  for (std::size_t i = 3; i < 9; ++i) loss += std::log1p(std::exp(sets[i] == 1 ? -logits[i] : logits[i])) / 6;
  CHECK(run.loss() == Approx(loss).epsilon(1e-12));
}

TEST_CASE("encoder: the loss of labels of words is the mean cross-entropy of the known ones") {
  EncoderSpec spec = small_encoder(false, Task::tag, Form::dense);
  spec.dropout = spec.attention_dropout = 0;
  ReferenceRun<double> run(spec);
  const std::vector<double> logits = run.logits();
  const auto labels = run.batch["word_labels"].as<const std::int32_t>();
  REQUIRE(logits.size() == 24 * 3);
  double loss = 0;
  for (std::size_t k = 0; k < 24; ++k) {
    if (labels[k] < 0) continue;
    const double* row = logits.data() + 3 * k;
    loss += std::log(std::exp(row[0]) + std::exp(row[1]) + std::exp(row[2])) - row[labels[k]];
  }
  CHECK(run.loss() == Approx(loss / 8).epsilon(1e-12));
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
