// The peak memory that CompAct saves, planned at the published sizes (arXiv 2410.15352, tables 2 and 3) without memory
// for a step.
#include <catch2/catch.hpp>
#include <map>

#include "lib/engine/engine.h"
#include "lib/layers/activations/policy.h"
#include "lib/train/optimizer.h"
#include "models/architecture.h"
#include "tests/models/small_models.h"

using namespace comera;

namespace {

// LLaMA with the sizes of GaLore's experiments, which the paper takes over.
models::DecoderSpec llama(std::int64_t hidden, std::int64_t intermediate, std::int64_t heads, std::int64_t blocks) {
  models::DecoderSpec spec = small_decoder(models::Form::dense, false);
  spec.vocabulary = 32000;
  spec.hidden = hidden, spec.intermediate = intermediate, spec.layers = blocks;
  spec.heads = spec.key_heads = heads, spec.head_size = hidden / heads;
  spec.positions = 256;
  spec.theta = 10000;
  spec.attention_dropout = 0;
  return spec;
}

// GiB of a step of 128 x 256 tokens if all tensors have two bytes per number: half of a plan in float. 0: without
// projections.
double planned_gib(const models::DecoderSpec& spec, double ratio) {
  engine::EngineOptions options{.update = train::optimizer()};
  if (ratio > 0) {
    layers::Activations activations = layers::parse_activations({"compact"});
    activations.projected.ratio = ratio;
    options.keeper = std::make_shared<layers::RuledKeeper>(activations);
  }
  const plan::Machine machine{&kernels::reference_backend(), DType::f32, nullptr};
  engine::Engine engine(machine, models::factory_of(spec, DType::f32), options);
  engine.plan_training(engine.model().planning_batch(128, 256, 0));
  return static_cast<double>(engine.planned_bytes()) / 2 / (1 << 30);
}

}  // namespace

// Published: GiB of the dense peak less that at n/2, n/4, n/8; of 1B, which did not fit, less that at n/2.
TEST_CASE("compact: planned peaks differ from the dense one as the published ones do") {
  struct Published {
    const char* name;
    models::DecoderSpec spec;
    double first_ratio;
    std::map<double, double> saved;
  };
  const Published published[] = {{"60M", llama(512, 1376, 8, 8), 0, {{0.5, 0.27}, {0.25, 0.79}, {0.125, 1.05}}},
                                 {"130M", llama(768, 2048, 12, 12), 0, {{0.5, 0.69}, {0.25, 1.88}, {0.125, 2.47}}},
                                 {"350M", llama(1024, 2736, 16, 24), 0, {{0.5, 2.03}, {0.25, 5.26}, {0.125, 6.94}}},
                                 {"1B", llama(2048, 5461, 32, 24), 0.5, {{0.25, 7.25}, {0.125, 10.94}}}};
  for (const Published& one : published) {
    const double first = planned_gib(one.spec, one.first_ratio);
    for (const auto& [ratio, saved] : one.saved) {
      const double planned = first - planned_gib(one.spec, ratio);
      CAPTURE(one.name, ratio, first, saved, planned);
      CHECK(std::abs(planned - saved) <= 0.05);
    }
  }
}
