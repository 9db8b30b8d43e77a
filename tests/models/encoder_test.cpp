// Whole encoders: parameter counts of the paper, gradients by the complex step, the same bits under every recompute policy.
#include "models/encoder.h"

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
};

const Variant variants[] = {
    {"post-LN classifier, TT", false, Task::classify, Form::tt},
    {"pre-LN classifier, TT", true, Task::classify, Form::tt},
    {"post-LN mlm, TT with a TTM table", false, Task::mlm, Form::tt},
    {"pre-LN mlm, dense", true, Task::mlm, Form::dense},
    {"post-LN classifier, low rank", false, Task::classify, Form::lowrank},
};

using Gradients = std::vector<std::vector<double>>;

double norm(const Gradients& gradients) {
  double sum = 0;
  for (const auto& gradient : gradients)
    for (const double x : gradient) sum += x * x;
  return std::sqrt(sum);
}

double distance(const std::vector<std::vector<float>>& a, const Gradients& b) {
  double sum = 0;
  for (std::size_t p = 0; p < b.size(); ++p)
    for (std::size_t i = 0; i < b[p].size(); ++i) sum += (a[p][i] - b[p][i]) * (a[p][i] - b[p][i]);
  return std::sqrt(sum);
}

}  // namespace

TEST_CASE("every gradient of a small encoder is the complex step's") {
  for (const Variant& variant : variants) {
    DYNAMIC_SECTION(variant.name) {
      const EncoderSpec spec = small_encoder(variant.pre_norm, variant.task, variant.form);
      ReferenceRun<double> real(spec);
      real.step(layers::Recompute::none);
      ReferenceRun<std::complex<double>> complex(spec);
      double worst = 0;
      for (layers::Parameter& parameter : complex.model->parameters().all()) {
        for (const std::int64_t index : sample_entries(parameter)) {
          auto& entry = static_cast<std::complex<double>*>(parameter.value.data)[index];
          const std::complex<double> before = entry;
          entry += std::complex<double>(0, 1e-40);
          const double expected = complex.loss().imag() / 1e-40;
          entry = before;
          const double found = real.gradient(parameter.index, index);
          const double error = std::abs(found - expected) / (1e-3 + std::abs(expected));
          worst = std::max(worst, error);
          if (error > 1e-10) FAIL_CHECK(parameter.name << "[" << index << "]: " << found << " instead of " << expected);
        }
      }
      CHECK(worst < 1e-10);
    }
  }
}

TEST_CASE("gradients are the same bits whatever is recomputed") {
  for (const Variant& variant : variants) {
    DYNAMIC_SECTION(variant.name) {
      const EncoderSpec spec = small_encoder(variant.pre_norm, variant.task, variant.form);
      ReferenceRun<double> none(spec), cheap(spec), block(spec);
      none.step(layers::Recompute::none);
      cheap.step(layers::Recompute::cheap);
      block.step(layers::Recompute::block);
      CHECK(none.state.loss[0] == cheap.state.loss[0]);
      CHECK(none.state.loss[0] == block.state.loss[0]);
      CHECK(none.all_gradients() == cheap.all_gradients());
      CHECK(none.all_gradients() == block.all_gradients());
    }
  }
}

TEST_CASE("the six-encoder transformer has the paper's parameters, dense and in TT form") {
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

TEST_CASE("a layer whose bonds are empty is its bias") {
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

// What single precision costs is measured, not guessed: the reference in float against the reference in double. The fast kernels may be
// four times as far from the truth, parameter by parameter.
TEST_CASE("the CPU backend's gradients lie as near to the double reference as single precision allows") {
  for (const char* isa : {"v3", "v4", "v4bf16"}) {
    const char* error = nullptr;
    const kernels::Backend* cpu = kernels::cpu_backend(isa, &error);
    if (!cpu) {
      WARN("skipped: " << error);
      continue;
    }
    for (const Variant& variant : variants) {
      DYNAMIC_SECTION(isa << ", " << variant.name) {
        const EncoderSpec spec = small_encoder(variant.pre_norm, variant.task, variant.form);
        ReferenceRun<double> truth(spec);
        ReferenceRun<float> plain(spec), fast(spec, *cpu);
        truth.step(layers::Recompute::none);
        plain.step(layers::Recompute::none);
        fast.step(layers::Recompute::none);
        const std::vector<std::vector<float>> none = fast.all_gradients();
        const double plain_error = distance(plain.all_gradients(), truth.all_gradients());
        INFO("plain single precision is off by " << plain_error << " of " << norm(truth.all_gradients()));
        CHECK(distance(none, truth.all_gradients()) <= 4 * plain_error);
        fast.step(layers::Recompute::cheap);
        CHECK(fast.all_gradients() == none);
        fast.step(layers::Recompute::block);
        CHECK(fast.all_gradients() == none);
      }
    }
  }
}
