// A block as a model of its own: its gradients by the complex step, and its outputs against those in the whole model.
#include "models/lone_block.h"

#include <catch2/catch.hpp>

#include "lib/engine/engine.h"
#include "lib/layers/training/observe.h"
#include "tests/models/small_models.h"

using namespace comera;
using models::Form;

namespace {

layers::WeightForm fixed_form(const tt::Layout& correction) {
  layers::WeightForm form;
  form.storage = layers::Storage::fixed;
  form.layout = correction;
  form.initial_ranks = correction.ranks;
  form.folded = true;
  return form;
}

// Some weights of a block are fixed, with and without a correction; one of them has an activation.
template <class Spec, class Names>
models::ModelSpec with_fixed(Spec spec, const Names& up, const Names& down, const Names& query, std::int64_t in,
                             std::int64_t out) {
  spec.forms[up] = fixed_form(tt::tt_layout({in}, {out}, {1, 2, 1}));
  spec.forms[down] = fixed_form(tt::tt_layout({out}, {in}, {1, 3, 1}));
  spec.forms[query] = fixed_form({});
  return spec;
}

models::ModelSpec corrected_decoder() {
  const models::DecoderSpec spec = small_decoder(Form::lowrank, false);
  const auto name = [](const char* part) { return models::DecoderNames::layer(1, part); };
  return with_fixed(spec, name(models::DecoderNames::up), name(models::DecoderNames::down),
                    name(models::DecoderNames::query), spec.hidden, spec.intermediate);
}

models::ModelSpec corrected_encoder(bool pre_norm) {
  const models::EncoderSpec spec = tensorized_encoder(pre_norm, data::Task::embed);
  const models::EncoderNames names(spec);
  return with_fixed(spec, names.layer(1, names.up), names.layer(1, names.down), names.layer(1, names.query),
                    spec.hidden, spec.intermediate);
}

models::ModelSpec windowed_decoder() {
  models::DecoderSpec spec = small_decoder(Form::lowrank, true);
  spec.window = 3;
  spec.windowed = {false, true};
  return spec;
}

models::ModelSpec mpnet(bool fixed_bias) {
  models::EncoderSpec spec = small_mpnet(data::Task::embed, Form::lowrank);
  if (fixed_bias) spec.forms[models::EncoderNames(spec).relative_bias] = fixed_form({});
  return spec;
}

std::vector<std::pair<const char*, models::ModelSpec>> variants() {
  return {{"decoder, dense", small_decoder(Form::dense, true)},
          {"decoder, low rank", small_decoder(Form::lowrank, false)},
          {"decoder, fixed weights with corrections", corrected_decoder()},
          {"decoder with a window", windowed_decoder()},
          {"GPT-2, low rank", small_gpt2(Form::lowrank, true)},
          {"MPNet, low rank", mpnet(false)},
          {"MPNet, a fixed bias", mpnet(true)},
          {"ModernBERT with a window", small_modernbert(data::Task::embed, Form::lowrank)},
          {"post-LN, chains of all shapes", tensorized_encoder(false, data::Task::embed)},
          {"pre-LN, chains of all shapes", tensorized_encoder(true, data::Task::embed)},
          {"post-LN, fixed weights with corrections", corrected_encoder(false)},
          {"pre-LN, fixed weights with corrections", corrected_encoder(true)}};
}

template <class T>
data::Batch block_batch(const models::ModelSpec& spec) {
  data::Batch batch = small_batch(spec);
  const std::int64_t hidden = models::common(spec).hidden;
  batch.counted = 14;  // 8, 5 and 1 tokens
  double phase = 0;
  for (const char* name : {models::block_input, models::block_target}) {
    const TensorView view = batch.add(name, ReferenceRun<T>::dtype, {24, hidden});
    for (std::int64_t i = 0; i < 24 * hidden; ++i)
      layers::store({view.data, view.dtype, view.shape, -1}, i, std::sin(0.7 * static_cast<double>(i) + phase));
    phase += 1;
  }
  return batch;
}

template <class T>
ReferenceRun<T> run_of(const models::ModelSpec& spec) {
  return ReferenceRun<T>(models::make_lone_block(spec, 1, ReferenceRun<T>::dtype), block_batch<T>(spec));
}

}  // namespace

TEST_CASE("lone block: every gradient of the loss equals that of the complex step") {
  for (const auto& [name, spec] : variants()) {
    DYNAMIC_SECTION(name) {
      auto real = run_of<double>(spec);
      real.step(layers::Recompute::none);
      auto complex = run_of<std::complex<double>>(spec);
      const Comparison seen = compare_with_complex_step(real, complex);
      CHECK(seen.worst < 1e-10);
      CHECK(seen.largest > 1e-3);
    }
  }
}

TEST_CASE("lone block: a fixed weight has no gradient, and the norm of the next block has none either") {
  auto run = run_of<double>(corrected_decoder());
  run.step(layers::Recompute::none);
  int fixed = 0;
  for (const layers::Parameter& parameter : run.model->parameters().all()) {
    const auto& gradient = run.all_gradients()[static_cast<std::size_t>(parameter.index)];
    const bool none = std::all_of(gradient.begin(), gradient.end(), [](double x) { return x == 0; });
    CHECK(gradient.empty() == parameter.fixed);
    CHECK(none == (parameter.fixed || parameter.name == "model.norm.weight"));
    fixed += parameter.fixed;
  }
  CHECK(fixed == 3);
}

namespace {

// The flow before and after each block of a model.
class Flows final : public layers::InputObserver {
 public:
  struct Flow {
    std::vector<float> normed, residual;
  };
  void see(const std::string&, const plan::Tensor&) override {}
  void arrive(const plan::Tensor& normed, const plan::Tensor& residual) override { keep(normed, residual); }
  void leave(std::size_t, plan::Tensor& normed, plan::Tensor& residual) override { keep(normed, residual); }
  std::vector<Flow> flows;

 private:
  static std::vector<float> numbers(const plan::Tensor& tensor) {
    const auto* data = static_cast<const float*>(tensor.data);
    return {data, data + (tensor.empty() ? 0 : tensor.elements())};
  }
  void keep(const plan::Tensor& normed, const plan::Tensor& residual) {
    flows.push_back({numbers(normed), numbers(residual)});
  }
};

void copy_parameters(engine::Engine& from, engine::Engine& to) {
  for (layers::Parameter& parameter : to.model().parameters().all()) {
    const layers::Parameter* found = from.model().parameters().find(parameter.name);
    REQUIRE(found);
    std::memcpy(parameter.value.data, found->value.data, parameter.value.bytes());
  }
  to.weights_changed();
}

}  // namespace

TEST_CASE("lone block: its outputs are those of the block in the whole model") {
  const char* error = nullptr;
  const kernels::Backend* cpu = kernels::cpu_backend("auto", &error);
  REQUIRE(cpu);
  const plan::Machine machine{cpu, DType::f32, nullptr};
  const std::vector<std::pair<const char*, models::ModelSpec>> models_of{
      {"decoder", small_decoder(Form::lowrank, true)},
      {"decoder with a window", windowed_decoder()},
      {"GPT-2", small_gpt2(Form::dense, true)},
      {"post-LN", small_encoder(false, data::Task::embed, Form::tt)},
      {"pre-LN", small_encoder(true, data::Task::embed, Form::dense)},
      {"MPNet", small_mpnet(data::Task::embed, Form::dense)},
      {"ModernBERT", small_modernbert(data::Task::embed, Form::lowrank)}};
  for (const auto& [name, spec] : models_of) {
    DYNAMIC_SECTION(name) {
      engine::Engine whole(machine, models::factory_of(spec, DType::f32), {});
      whole.allocate();
      whole.weights().initialise(3);
      data::Batch batch = small_batch(spec);
      for (const char* packed : {"key_begin", "position_ids"})  // a lone block has one document per sequence
        if (batch.has(packed))
          for (std::int32_t k = 0; k < 24; ++k)
            batch[packed].as<std::int32_t>()[static_cast<std::size_t>(k)] = packed[0] == 'k' ? 0 : k % 8;
      Flows seen;
      {
        const layers::ObserveInputs observe(seen);
        whole.evaluate(batch);
      }
      REQUIRE(seen.flows.size() == 3);
      const bool norms = models::norms_inputs(spec);
      for (std::int64_t number = 0; number < 2; ++number) {
        const auto factory = [&spec = spec, number](const layers::RankTable&) {
          return models::make_lone_block(spec, number, DType::f32);
        };
        engine::Engine lone(machine, factory, {.fetch_hidden = true});
        lone.allocate();
        copy_parameters(whole, lone);
        const Flows::Flow &before = seen.flows[static_cast<std::size_t>(number)],
                          &after = seen.flows[static_cast<std::size_t>(number) + 1];
        const std::int64_t hidden = models::common(spec).hidden;
        const auto put = [&](const char* tensor, const Flows::Flow& flow) {
          const auto to = batch.add(tensor, DType::f32, {24, hidden}).as<float>();
          const std::vector<float>& from = norms ? flow.residual : flow.normed;
          std::copy(from.begin(), from.end(), to.begin());
        };
        put(models::block_input, before);
        put(models::block_target, after);
        const engine::Scores scores = lone.evaluate(batch);
        // The same kernels on the same numbers.
        CHECK(scores.loss == 0);
        CHECK(std::ranges::equal(scores.hidden, norms ? after.residual : after.normed));
        if (norms) CHECK(std::ranges::equal(scores.embedding, after.normed));
      }
    }
  }
}
