// stories15M, a published Llama: logits and greedy tokens equal those of transformers (values from
// tests/models/interop/llama_reference.py).
#include <catch2/catch.hpp>
#include <cstdlib>

#include "kernels/host/cpu_backend.h"
#include "lib/engine/generate.h"
#include "lib/engine/weights_file.h"
#include "models/architecture.h"
#include "tests/models/stories15m_reference.h"

using namespace comera;

namespace {

struct Stories {
  data::Ids ids{std::begin(stories15m::ids), std::end(stories15m::ids)};
  std::shared_ptr<const data::Tokenizer> tokenizer;
  std::unique_ptr<engine::Engine> engine;
};

// Returns empty members if COMERA_DATA is not set.
Stories stories() {
  Stories stories;
  const char* data = std::getenv("COMERA_DATA");
  if (!data) {
    WARN("COMERA_DATA is not set: stories15M is not tested");
    return stories;
  }
  const std::string folder = std::string(data) + "/checkpoints/stories15M";
  const char* error = nullptr;
  const plan::Machine machine{kernels::cpu_backend("auto", &error), DType::f32, nullptr};
  stories.tokenizer = data::load_tokenizer(folder);
  stories.engine = std::make_unique<engine::Engine>(
      machine, models::factory_of(models::spec_from_folder(folder), machine.dtype), engine::EngineOptions{});
  stories.engine->allocate();
  engine::load_weights(folder + "/model.safetensors", stories.engine->weights());
  return stories;
}

}  // namespace

TEST_CASE("stories15M: logits agree with transformers within four times the error of torch's float32") {
  Stories here = stories();
  if (!here.engine) return;
  data::Ids ids{1};
  here.tokenizer->encode(stories15m::prompt, ids);
  CHECK(ids == here.ids);
  data::Batch batch;
  engine::fill_generation_batch(batch, here.ids, 0, 0);
  const auto count = static_cast<std::int64_t>(here.ids.size());
  auto rows = batch.add("logit_rows", DType::i32, {count}).as<std::int32_t>();
  for (std::int64_t t = 0; t < count; ++t) rows[static_cast<std::size_t>(t)] = static_cast<std::int32_t>(t);
  const engine::Scores scores = here.engine->evaluate(batch);
  double squares = 0, largest = 0;
  std::int64_t entries = 0;
  for (std::int64_t t = 0; t < count; ++t)
    for (std::size_t c = 0; c < std::size(stories15m::columns); ++c, ++entries) {
      const double error =
          scores.logits[static_cast<std::size_t>(t * 32000 + stories15m::columns[c])] - stories15m::logits[t][c];
      squares += error * error;
      largest = std::max(largest, std::abs(error));
    }
  CHECK(std::sqrt(squares / static_cast<double>(entries)) <= 4 * stories15m::float32_rms);
  CHECK(largest <= 4 * stories15m::float32_largest);
}

TEST_CASE("stories15M: greedy tokens equal those of transformers, with and without a cache") {
  Stories here = stories();
  if (!here.engine) return;
  engine::GenerateOptions options;
  options.positions = 256;
  options.max_tokens = std::size(stories15m::greedy);
  const data::Ids expected(std::begin(stories15m::greedy), std::end(stories15m::greedy));
  CHECK(engine::generate(*here.engine, here.ids, 0, options).ids == expected);
  options.cache = false;
  CHECK(engine::generate(*here.engine, here.ids, 0, options).ids == expected);
}
