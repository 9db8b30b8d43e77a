// Generation: the cache gives the same results as a full pass, and draws follow the probabilities.
#include "lib/engine/generate.h"

#include <catch2/catch.hpp>
#include <set>

#include "lib/core/error.h"
#include "tests/models/small_models.h"

using namespace comera;

namespace {

models::DecoderSpec writer(models::Form form) {
  models::DecoderSpec spec = small_decoder(form, true);
  spec.positions = 40;
  return spec;
}

std::unique_ptr<engine::Engine> engine_of(const models::ModelSpec& spec, DType dtype) {
  const plan::Machine machine{&kernels::reference_backend(), dtype, nullptr};
  auto engine = std::make_unique<engine::Engine>(machine, models::factory_of(spec, dtype), engine::EngineOptions{});
  engine->allocate();
  engine->weights().initialise(3);
  return engine;
}

}  // namespace

TEST_CASE("generate: a cache changes logits only by rounding, and no token") {
  for (const models::Form form : {models::Form::dense, models::Form::tt}) {
    const auto engine = engine_of(writer(form), DType::f64);
    const data::Ids text{1, 5, 9, 22, 0, 7, 7, 13, 4, 18, 2, 11};
    engine->open_cache(1, 20);
    data::Batch batch;
    std::int64_t read = 0;
    for (const std::int64_t next : {5, 6, 7, 10, 11, 12}) {
      const std::span<const std::int32_t> known(text.data(), static_cast<std::size_t>(next));
      engine::fill_generation_batch(batch, known, read, 20);
      const engine::Scores cached = engine->decode(batch);
      const std::vector<double> with(cached.logits.begin(), cached.logits.end());
      data::Batch whole;
      engine::fill_generation_batch(whole, known, 0, 0);
      const engine::Scores again = engine->evaluate(whole);
      REQUIRE(with.size() == 23);
      for (std::size_t i = 0; i < with.size(); ++i) CHECK(with[i] == Approx(again.logits[i]).margin(1e-13));
      read = next;
    }
    engine::GenerateOptions options;
    options.positions = 40;
    options.max_tokens = 30;
    for (const double temperature : {0.0, 1.0}) {
      options.temperature = temperature;
      options.cache = true;
      const data::Ids with = engine::generate(*engine, {1, 5, 9}, 0, options).ids;
      options.cache = false;
      CHECK(with.size() == 30);
      CHECK(engine::generate(*engine, {1, 5, 9}, 0, options).ids == with);
    }
  }
}

TEST_CASE("generate: a text ends at an end piece, at the last position, or at the requested length") {
  const auto engine = engine_of(writer(models::Form::dense), DType::f32);
  engine::GenerateOptions options;
  options.positions = 40;
  options.max_tokens = 12;
  const engine::Generated free = engine::generate(*engine, {1}, 0, options);
  CHECK(free.ids.size() == 12);
  CHECK(!free.ended);
  options.ends = {free.ids[4]};
  const engine::Generated ended = engine::generate(*engine, {1}, 0, options);
  CHECK(ended.ended);
  CHECK(ended.ids.size() <= 4);
  options.ends.clear();
  options.max_tokens = 1000;
  CHECK(engine::generate(*engine, {1, 2, 3}, 0, options).ids.size() == 37);
  CHECK_THROWS_WITH(engine::generate(*engine, data::Ids(40, 1), 0, options), Catch::Contains("40 tokens"));
}

TEST_CASE("generate: draws follow the softmax at the temperature, inside the nucleus") {
  const std::vector<double> logits{1, 3, 2, -50};
  engine::GenerateOptions options;
  CHECK(engine::choose(logits, 0, 0, options) == 1);
  CHECK(engine::choose(std::vector<double>{2, 2, 1}, 0, 0, options) == 0);
  options.temperature = 2;
  std::vector<int> counts(4);
  constexpr int draws = 20000;
  for (int i = 0; i < draws; ++i) ++counts[static_cast<std::size_t>(engine::choose(logits, 5, i, options))];
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit / 2);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const double p = std::exp(logits[i] / 2) / sum, deviation = std::sqrt(draws * p * (1 - p)) + 1;
    CHECK(std::abs(counts[i] - draws * p) < 5 * deviation);  // exceeded once in a million draws
  }
  options.top_p = 0.6;  // token 1 has probability .51, token 2 has .31
  std::set<std::int32_t> seen;
  for (int i = 0; i < 2000; ++i) seen.insert(engine::choose(logits, 5, i, options));
  CHECK(seen == std::set<std::int32_t>{1, 2});
  options.top_p = 0;
  for (int i = 0; i < 50; ++i) CHECK(engine::choose(logits, 5, i, options) == 1);
  options.top_p = 1;
  std::vector<std::int32_t> a, b, c;
  for (int i = 0; i < 64; ++i)
    a.push_back(engine::choose(logits, 5, i, options)), b.push_back(engine::choose(logits, 6, i, options));
  for (int i = 0; i < 64; ++i) c.push_back(engine::choose(logits, 5, i, options));
  CHECK(a == c);
  CHECK(a != b);
}
