// What a block keeps between forward and backward, in numbers per token, and the gradients of models that share it.
#include <catch2/catch.hpp>

#include "kernels/norm_output.h"
#include "lib/engine/engine.h"
#include "lib/layers/activations/policy.h"
#include "lib/train/optimizer.h"
#include "models/architecture.h"
#include "tests/models/small_models.h"

using namespace comera;
using layers::Recompute;
using models::Form;

namespace {

constexpr std::int64_t hidden = 128, intermediate = 336, heads = 4, sequences = 4, length = 64;
constexpr std::int64_t tokens = sequences * length;

std::size_t saved_bytes(std::int64_t blocks, Recompute recompute) {
  models::DecoderSpec spec = small_decoder(Form::dense, true);
  spec.vocabulary = 1000, spec.positions = length;
  spec.hidden = hidden, spec.intermediate = intermediate, spec.layers = blocks;
  spec.heads = spec.key_heads = heads, spec.head_size = hidden / heads;
  const plan::Machine machine{&kernels::reference_backend(), DType::f32, nullptr};
  engine::Engine engine(machine, models::factory_of(spec, DType::f32),
                        {.recompute = recompute, .update = train::optimizer()});
  engine.plan_training(engine.model().planning_batch(sequences, length, 0));
  return engine.memory_table().of(plan::Category::saved);
}

// Of one block, in bytes.
std::size_t of_a_block(Recompute recompute) { return saved_bytes(3, recompute) - saved_bytes(2, recompute); }

}  // namespace

// keep: input and output of two norms, q, k, v and the attention's output, gate, up and their product. One tensor each
// for the inputs of q, k and v and of gate and up. share and cheap: one tensor per norm, and no product.
TEST_CASE("share: a block of a dense LLaMA keeps 6 n + 2 m numbers per token, and 8 n + 3 m without it") {
  constexpr std::int64_t statistics = heads + 2 * 2;  // log-sum-exp, and mean and deviation of two norms
  const auto bytes = [](std::int64_t numbers) { return static_cast<std::size_t>(numbers * tokens) * sizeof(float); };
  CHECK(of_a_block(Recompute::none) == bytes(8 * hidden + 3 * intermediate + statistics));
  CHECK(of_a_block(Recompute::cheap) == bytes(6 * hidden + 2 * intermediate + statistics));
  constexpr std::int64_t picked = kernels::picked_columns(hidden);
  CHECK(of_a_block(Recompute::share) == bytes(6 * hidden + 2 * intermediate + statistics + 2 * picked) +
                                            2 * plan::aligned(picked * sizeof(std::int32_t)));
}

TEST_CASE("share: every gradient of a model equals that of the complex step, and is not the kept one to the bit") {
  models::DecoderSpec with_head_norms = small_decoder(Form::dense, false);
  with_head_norms.head_norms = true;
  const models::ModelSpec specs[] = {small_decoder(Form::dense, false),
                                     small_decoder(Form::tt, true),
                                     with_head_norms,
                                     small_gpt2(Form::dense, true),
                                     small_encoder(false, models::Task::classify, Form::dense),
                                     small_encoder(true, models::Task::mlm, Form::tt)};
  for (const models::ModelSpec& spec : specs) {
    ReferenceRun<double> kept(spec), shared(spec);
    kept.step(Recompute::none);
    shared.step(Recompute::share);
    CHECK(kept.state.loss[0] == shared.state.loss[0]);
    CHECK(kept.all_gradients() != shared.all_gradients());
    ReferenceRun<std::complex<double>> complex(spec);
    CHECK(compare_with_complex_step(shared, complex).worst < 1e-10);
  }
}

TEST_CASE("share: by the name of a block its norms restore their inputs, and all other blocks are those of keep") {
  const std::vector<std::string> one = {"*.0.*=share"}, all = {"*=share"}, none = {"share", "*=keep"};
  for (const models::ModelSpec& spec : {models::ModelSpec(small_decoder(Form::tt, true)),
                                        models::ModelSpec(small_encoder(true, models::Task::mlm, Form::dense))}) {
    const auto gradients = [&](const std::vector<std::string>& words) {
      const layers::Activations activations = layers::parse_activations(words);
      layers::RuledKeeper keeper(activations);
      ReferenceRun<double> run(spec);
      run.step(layers::SavePolicy(activations.recompute, true, keeper));
      CHECK_NOTHROW(keeper.check_rules());
      ReferenceRun<std::complex<double>> complex(spec);
      CHECK(compare_with_complex_step(run, complex).worst < 1e-10);
      return run.all_gradients();
    };
    ReferenceRun<double> kept(spec), shared(spec);
    kept.step(Recompute::none);
    shared.step(Recompute::share);
    CHECK(gradients(none) == kept.all_gradients());
    CHECK(gradients(all) == shared.all_gradients());
    const auto first = gradients(one);
    CHECK(first != kept.all_gradients());
    CHECK(first != shared.all_gradients());
  }
}
