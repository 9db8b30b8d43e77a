// Recomputation by name: every choice gives the gradients of `keep` to the bit, and what is saved is the sum over the
// blocks.
#include <catch2/catch.hpp>

#include "lib/engine/engine.h"
#include "lib/layers/activations/policy.h"
#include "lib/train/optimizer.h"
#include "models/architecture.h"
#include "tests/models/small_models.h"

using namespace comera;
using layers::Recompute;
using models::Form;
using Words = std::vector<std::string>;

namespace {

constexpr std::int64_t sequences = 4, length = 64;

std::size_t saved_bytes(const Words& words) {
  models::DecoderSpec spec = small_decoder(Form::dense, true);
  spec.vocabulary = 1000, spec.positions = length, spec.layers = 6;
  spec.hidden = 128, spec.intermediate = 336;
  spec.heads = spec.key_heads = 4, spec.head_size = 32;
  const layers::Activations activations = layers::parse_activations(words);
  const plan::Machine machine{&kernels::reference_backend(), DType::f32, nullptr};
  engine::Engine engine(machine, models::factory_of(spec, DType::f32),
                        {.recompute = activations.recompute,
                         .update = train::optimizer(),
                         .keeper = std::make_shared<layers::RuledKeeper>(activations)});
  engine.plan_training(engine.model().planning_batch(sequences, length, 0));
  return engine.memory_table().of(plan::Category::saved);
}

}  // namespace

TEST_CASE("recomputation by name: gradients are those of keep, bit for bit") {
  const models::ModelSpec specs[] = {small_decoder(Form::dense, false), small_gpt2(Form::dense, true),
                                     small_encoder(false, models::Task::classify, Form::dense),
                                     small_encoder(true, models::Task::mlm, Form::tt)};
  const Words choices[] = {{"*.0=block"},
                           {"*.0.*=block", "*.1.*=cheap"},
                           {"block", "*.0.*=keep"},
                           {"cheap", "*.1.*=keep"},
                           {"*.0=block", "cheap"}};
  for (const models::ModelSpec& spec : specs) {
    ReferenceRun<double> kept(spec);
    kept.step(Recompute::none);
    for (const Words& words : choices) {
      CAPTURE(words);
      const layers::Activations activations = layers::parse_activations(words);
      layers::RuledKeeper keeper(activations);
      ReferenceRun<double> named(spec);
      named.step(layers::SavePolicy(activations.recompute, true, keeper));
      CHECK(named.state.loss[0] == kept.state.loss[0]);
      CHECK(named.all_gradients() == kept.all_gradients());
      CHECK_NOTHROW(keeper.check_rules());
    }
  }
}

// Blocks that are no neighbours, so that the input of each is kept anyway: by the norm that made it.
TEST_CASE("recomputation by name: each block that runs again and each layer saves its own values") {
  const std::size_t keep = saved_bytes({}), one = keep - saved_bytes({"model.layers.1=block"});
  CHECK(one > 4 * sequences * length * 336 * sizeof(float));
  CHECK(saved_bytes({"model.layers.3.*=block"}) == keep - one);
  CHECK(saved_bytes({"model.layers.[13].*=block"}) == keep - 2 * one);
  CHECK(saved_bytes({"model.layers.*=block", "*.[024].*=keep"}) == keep - 2 * one);
  CHECK_THROWS_WITH(saved_bytes({"model.layers.5=block"}), Catch::Contains("the last one cannot"));
  CHECK(saved_bytes({"block"}) < saved_bytes({"block", "*.2.*=keep"}));

  const std::size_t cheap = keep - saved_bytes({"cheap"}), product = sequences * length * 336 * sizeof(float);
  CHECK(cheap > 6 * product);
  CHECK(saved_bytes({"*.down_proj=cheap"}) == keep - 6 * product);
  CHECK(saved_bytes({"*.2.mlp.down_proj=cheap"}) == keep - product);
  CHECK(saved_bytes({"cheap", "*.down_proj=keep"}) == keep - cheap + 6 * product);
}
