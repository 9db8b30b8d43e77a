// Losses against a teacher on whole encoders and decoders: gradients by the complex step, bitwise equality under every
// recompute policy.
#include "lib/train/teacher.h"

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
    {"embedding by the mean, scaled", false, Task::embed, layers::teacher_embedding, kernels::Distance::squared,
     kernels::Pooling::mean, true},
    {"embedding by the first token, cosine", false, Task::embed, layers::teacher_embedding, kernels::Distance::cosine,
     kernels::Pooling::first},
    {"logits beside labels", false, Task::classify, layers::teacher_logits, kernels::Distance::squared},
    {"numbers beside numbers", false, Task::regression, layers::teacher_logits, kernels::Distance::squared},
};

EncoderSpec spec_of(const Variant& variant) {
  EncoderSpec spec = small_encoder(variant.pre_norm, variant.task, models::Form::tt);
  spec.sentence = {variant.pooling, variant.normalise, 0};
  return spec;
}

template <class T>
void teach(ReferenceRun<T>& run, const Variant& variant, std::int64_t width = 8) {
  const std::string output = variant.output;
  const std::int64_t rows =
      output == layers::teacher_hidden ? run.batch.sequences * run.batch.length : run.batch.sequences;
  const std::int64_t columns =
      output == layers::teacher_logits ? small_encoder(false, variant.task, models::Form::dense).outputs() : width;
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

// A vocabulary larger than a chunk of logits.
models::DecoderSpec many_words(models::Form form, bool tied) {
  models::DecoderSpec spec = small_decoder(models::Form::dense, tied);
  spec.vocabulary = 2100;
  if (form == models::Form::dense) return spec;
  models::FormRules rules;
  rules.form = form, rules.rank = rules.embedding_rank = 3, rules.order = 2, rules.embedding_order = 3;
  models::apply_forms(spec, models::weight_sites(spec), rules);
  return spec;
}

layers::Distillation words_of(layers::VocabularyDecoder* teacher) {
  layers::Distillation settings;
  settings.active = true, settings.teacher = teacher;
  settings.temperature = 1.5, settings.weight = 0.7;
  return settings;
}

// Merges the teacher's chains into factors. The input of its decoder is arbitrary.
template <class T>
void teach_words(ReferenceRun<T>& run, ReferenceRun<T>& teacher, std::int64_t width) {
  teacher.loss();
  const std::int64_t rows = run.batch.has("masked_index") ? 4 : 24;
  const TensorView view = run.batch.add(layers::teacher_decoder_input, ReferenceRun<T>::dtype, {rows, width});
  const plan::Tensor host{view.data, view.dtype, view.shape, -1};
  for (std::int64_t i = 0; i < view.elements(); ++i) layers::store(host, i, std::sin(3.0 * static_cast<double>(i) + 1));
  run.model->set_distillation(words_of(teacher.model->vocabulary_decoder()));
}

void check_words(const models::ModelSpec& student, const models::ModelSpec& teacher) {
  const std::int64_t width = models::common(teacher).hidden;
  ReferenceRun<double> real(student), real_teacher(teacher);
  ReferenceRun<std::complex<double>> complex(student), complex_teacher(teacher);
  const double alone = real.loss();
  teach_words(real, real_teacher, width);
  teach_words(complex, complex_teacher, width);
  CHECK(real.loss() > alone + 0.01);
  real.step(layers::Recompute::none);
  const Comparison seen = compare_with_complex_step(real, complex);
  CHECK(seen.worst < 1e-10);
  CHECK(seen.largest > 0);
  ReferenceRun<double> block(student);
  teach_words(block, real_teacher, width);
  block.step(layers::Recompute::block);
  CHECK(real.all_gradients() == block.all_gradients());
}

// The batch of small_batch with a request for all logits instead of a loss.
data::Batch asking_for_logits(const data::Batch& batch) {
  data::Batch other;
  other.sequences = batch.sequences, other.length = batch.length;
  for (const char* name : {"input_ids", "lengths", "samples", "key_begin", "position_ids"}) {
    const TensorView from = batch[name], to = other.add(name, from.dtype, from.shape);
    std::memcpy(to.data, from.data, from.bytes());
  }
  auto rows = other.add("logit_rows", DType::i32, {24}).as<std::int32_t>();
  for (std::int32_t k = 0; k < 24; ++k) rows[k] = k;
  return other;
}

// log softmax(logits / t).
std::vector<double> log_softmax(std::span<const double> logits, double t) {
  double sum = 0;
  for (const double z : logits) sum += std::exp(z / t);
  std::vector<double> out;
  for (const double z : logits) out.push_back(z / t - std::log(sum));
  return out;
}

}  // namespace

TEST_CASE("teacher: every gradient of an encoder equals that of the complex step") {
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

TEST_CASE("teacher: a decoder learns hidden states in addition to tokens") {
  const Variant variant{"decoder", false, Task::clm, layers::teacher_hidden, kernels::Distance::squared};
  const models::DecoderSpec spec = small_decoder(models::Form::tt, true);
  ReferenceRun<double> real(spec);
  ReferenceRun<std::complex<double>> complex(spec);
  teach(real, variant, spec.hidden);
  teach(complex, variant, spec.hidden);
  real.step(layers::Recompute::none);
  CHECK(compare_with_complex_step(real, complex).worst < 1e-10);
}

TEST_CASE("teacher: gradients of language models with a teacher's logits equal the complex step") {
  SECTION("a decoder in TT form after a dense one, tied and not") {
    check_words(many_words(models::Form::tt, true), many_words(models::Form::dense, false));
  }
  SECTION("a dense decoder after one with a TTM head") {
    check_words(many_words(models::Form::dense, true), many_words(models::Form::tt, false));
  }
  SECTION("masked words") {
    check_words(small_encoder(false, Task::mlm, models::Form::tt), small_encoder(true, Task::mlm, models::Form::dense));
  }
}

TEST_CASE("teacher: the loss on a teacher's logits is the divergence of the two full softmaxes") {
  const plan::Machine machine{&kernels::reference_backend(), DType::f64, nullptr};
  const models::DecoderSpec student = many_words(models::Form::dense, true),
                            other = many_words(models::Form::tt, false);
  const auto make = [&](const models::DecoderSpec& spec, const layers::Distillation& settings) {
    const layers::ModelFactory factory = [=](const layers::RankTable&) {
      auto model = models::make_model(spec, DType::f64);
      model->set_distillation(settings);
      return model;
    };
    return std::make_unique<engine::Engine>(machine, factory, engine::EngineOptions{.fetch_hidden = settings.teaches});
  };
  const auto begin = [](engine::Weights& weights) { weights.initialise(3); };
  auto said = make(other, {});
  auto engine = make(other, {.teaches = true});
  auto pupil = make(student, words_of(engine->model().vocabulary_decoder()));
  for (engine::Engine* one : {said.get(), pupil.get()})
    one->allocate(), one->weights().initialise(one == pupil.get() ? 4 : 3);
  train::Teacher teacher(std::move(engine), layers::teacher_decoder_input, other.hidden, begin);
  teacher.allocate();

  data::Batch batch = small_batch(student);
  const data::Batch asking = asking_for_logits(batch);
  const auto copy = [](std::span<const double> numbers) { return std::vector<double>(numbers.begin(), numbers.end()); };
  const std::vector<double> own = copy(pupil->evaluate(asking).logits), theirs = copy(said->evaluate(asking).logits);
  const auto targets = batch["targets"].as<const std::int32_t>();
  double divergence = 0, words = 0;
  for (std::size_t k = 0; k < 24; ++k) {
    if (targets[k] < 0) continue;
    const std::span row(own.data() + k * 2100, 2100), row_said(theirs.data() + k * 2100, 2100);
    words -= log_softmax(row, 1)[static_cast<std::size_t>(targets[k])];
    const std::vector<double> p = log_softmax(row, 1.5), q = log_softmax(row_said, 1.5);
    for (std::size_t j = 0; j < 2100; ++j) divergence += std::exp(q[j]) * (q[j] - p[j]);
  }
  teacher.teach(batch);
  const double loss = pupil->evaluate(batch).loss;
  CHECK(divergence > 0.1);
  CHECK(loss == Approx(words + 0.7 * 1.5 * 1.5 * divergence).epsilon(1e-12));
}
