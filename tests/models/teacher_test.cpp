// Losses against a teacher through whole encoders: gradients by the complex step, the same bits under every recompute policy.
#include <catch2/catch.hpp>
#include <complex>

#include "lib/layers/distillation.h"
#include "tests/models/small_models.h"

using namespace comera;
using models::EncoderSpec;
using models::Task;

namespace {

struct Variant {
  const char* name;
  bool pre_norm;
  Task task;
  const char* output;
  kernels::Distance distance;
  kernels::Pooling pooling = kernels::Pooling::mean;
  bool normalise = false;
};

const Variant variants[] = {
    {"hidden states, squared", false, Task::embed, layers::teacher_hidden, kernels::Distance::squared},
    {"hidden states, cosine, pre-LN", true, Task::embed, layers::teacher_hidden, kernels::Distance::cosine},
    {"hidden states beside masked words", false, Task::mlm, layers::teacher_hidden, kernels::Distance::squared},
    {"embedding by the mean, scaled", false, Task::embed, layers::teacher_embedding, kernels::Distance::squared, kernels::Pooling::mean, true},
    {"embedding by the first token, cosine", false, Task::embed, layers::teacher_embedding, kernels::Distance::cosine, kernels::Pooling::first},
    {"logits beside labels", false, Task::classify, layers::teacher_logits, kernels::Distance::squared},
};

EncoderSpec spec_of(const Variant& variant) {
  EncoderSpec spec = small_encoder(variant.pre_norm, variant.task, models::Form::tt);
  spec.sentence = {variant.pooling, variant.normalise, 0};
  return spec;
}

template <class T>
void teach(ReferenceRun<T>& run, const Variant& variant, std::int64_t width = 8) {
  const std::string output = variant.output;
  const std::int64_t rows = output == layers::teacher_hidden ? run.batch.sequences * run.batch.length : run.batch.sequences;
  const std::int64_t columns = output == layers::teacher_logits ? 3 : width;
  const TensorView view = run.batch.add(variant.output, ReferenceRun<T>::dtype, {rows, columns});
  const plan::Tensor host{view.data, view.dtype, view.shape, -1};
  for (std::int64_t i = 0; i < view.elements(); ++i) layers::store(host, i, std::sin(3.0 * static_cast<double>(i) + 1));
  layers::Distillation settings;
  settings.active = true;
  settings.distance = variant.distance;
  settings.temperature = 1.5;
  settings.weight = 0.7;
  run.model->set_distillation(settings);
  run.state.scalars.sequence_scale = 1.0 / static_cast<double>(run.batch.sequences);
}

}  // namespace

TEST_CASE("every gradient of an encoder with a teacher is the complex step's") {
  for (const Variant& variant : variants) {
    DYNAMIC_SECTION(variant.name) {
      ReferenceRun<double> real(spec_of(variant));
      ReferenceRun<std::complex<double>> complex(spec_of(variant));
      teach(real, variant);
      teach(complex, variant);
      real.step(layers::Recompute::none);
      const Comparison seen = compare_with_complex_step(real, complex);
      CHECK(seen.worst < 1e-10);
      CHECK(seen.largest > 0);
      ReferenceRun<double> cheap(spec_of(variant)), block(spec_of(variant));
      teach(cheap, variant);
      teach(block, variant);
      cheap.step(layers::Recompute::cheap);
      block.step(layers::Recompute::block);
      CHECK(real.all_gradients() == cheap.all_gradients());
      CHECK(real.all_gradients() == block.all_gradients());
    }
  }
}

TEST_CASE("a decoder learns hidden states beside words") {
  const Variant variant{"decoder", false, Task::clm, layers::teacher_hidden, kernels::Distance::squared};
  const models::DecoderSpec spec = small_decoder(models::Form::tt, true);
  ReferenceRun<double> real(spec);
  ReferenceRun<std::complex<double>> complex(spec);
  teach(real, variant, spec.hidden);
  teach(complex, variant, spec.hidden);
  real.step(layers::Recompute::none);
  CHECK(compare_with_complex_step(real, complex).worst < 1e-10);
}
