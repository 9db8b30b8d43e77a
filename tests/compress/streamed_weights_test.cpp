#include "lib/compress/calibration/streamed_weights.h"

#include <catch2/catch.hpp>
#include <numeric>

#include "lib/engine/engine.h"
#include "models/architecture.h"
#include "models/planning.h"
#include "tests/compress/small_models.h"
#include "tests/core/temporary_folder.h"

using namespace comera;
using namespace comera::compress;

namespace {

using Version = StreamedWeights::Version;

struct Fixture {
  TemporaryFolder folder;
  std::string path;
  models::ModelSpec spec;
  data::Batch batch;

  Fixture() {
    write_model(folder.path());
    io::Json bare = config();
    bare["architectures"] = {"BertModel"};
    write_file_atomic(folder / "config.json", io::json_text(bare));
    path = folder / "model.safetensors";
    spec = models::spec_from_folder(folder.path());
    batch = models::planning_batch(models::common(spec), 2, 8, 0.15);
    const auto ids = batch["input_ids"].as<std::int32_t>();
    std::iota(ids.begin(), ids.end(), 5);
    for (std::int32_t& length : batch["lengths"].as<std::int32_t>()) length = 8;
  }

  std::unique_ptr<engine::Engine> engine(const layers::ModelFactory& factory,
                                         bool (*streamed)(const layers::Parameter&)) const {
    auto made = std::make_unique<engine::Engine>(machine(), factory, engine::EngineOptions{.fetch_hidden = true});
    made->allocate();
    engine::load_weights(path, made->weights(), {.fresh = streamed, .may_miss = {}});
    return made;
  }

  std::vector<double> hidden_of(engine::Engine& engine) const {
    const engine::Scores scores = engine.evaluate(batch);
    return {scores.hidden.begin(), scores.hidden.end()};
  }
};

layers::Parameter& find(engine::Engine& engine, const std::string& end) {
  for (layers::Parameter& parameter : engine.model().parameters().all())
    if (parameter.name.ends_with(end)) return parameter;
  throw std::logic_error(end);
}

}  // namespace

TEST_CASE("streamed weights: outputs equal those with all matrices in memory, and at most the largest is held") {
  const Fixture fixture;
  const layers::ModelFactory plain = models::factory_of(fixture.spec, DType::f32);
  ScratchFile scratch(fixture.folder.path());
  StreamedWeights weights(fixture.path, scratch);
  const auto whole = fixture.engine(plain, [](const layers::Parameter&) { return false; });
  const auto streamed = fixture.engine(weights.streaming(plain), StreamedWeights::streams);
  const std::vector<double> wanted = fixture.hidden_of(*whole);
  CHECK(fixture.hidden_of(*streamed) == wanted);
  CHECK(fixture.hidden_of(*streamed) == wanted);
  CHECK(weights.most_bytes() == sizeof(float) * intermediate * hidden);
  CHECK(weights.held_bytes() <= weights.most_bytes());
  CHECK(weights.held_bytes() > 0);
  // Norms and biases, each at its own aligned place.
  std::size_t small = 0;
  for (const layers::Parameter& parameter : streamed->model().parameters().all())
    small += parameter.source ? 0 : plan::aligned(sizeof(float) * static_cast<std::size_t>(parameter.shape.elements()));
  CHECK(streamed->weights().bytes() == small);

  SECTION("a replaced weight is read while replaced weights are selected, until restore()") {
    layers::Parameter& value = find(*streamed, "layer.1.attention.self.value.weight");
    const std::vector<double> nothing(static_cast<std::size_t>(value.shape.elements()));
    weights.replace(value, nothing);
    CHECK(weights.any_replaced());
    CHECK(fixture.hidden_of(*streamed) == wanted);
    weights.show(Version::replaced);
    const std::vector<double> moved = fixture.hidden_of(*streamed);
    CHECK(moved != wanted);
    layers::Parameter& in_memory = find(*whole, "layer.1.attention.self.value.weight");
    std::fill_n(static_cast<float*>(in_memory.value.data), nothing.size(), 0.0f);
    whole->weights_changed();
    CHECK(fixture.hidden_of(*whole) == moved);
    const auto original = weights.original(value);
    CHECK(std::any_of(original.begin(), original.end(), [](float number) { return number != 0; }));
    weights.restore();
    CHECK_FALSE(weights.any_replaced());
    CHECK(fixture.hidden_of(*streamed) == wanted);
    weights.replace(value, nothing);
    CHECK(fixture.hidden_of(*streamed) == moved);
    weights.replace(value, std::vector<double>(nothing.size(), 1e-3));
    CHECK(fixture.hidden_of(*streamed) != moved);
  }
  SECTION("compressed models have replaced weights of their own") {
    layers::Parameter &value = find(*streamed, "layer.1.attention.self.value.weight"),
                      &down = find(*streamed, "layer.0.output.dense.weight");
    const std::vector<double> nothing(static_cast<std::size_t>(value.shape.elements()));
    weights.replace(value, nothing, 1);
    CHECK(weights.any_replaced(1));
    CHECK_FALSE(weights.any_replaced(0));
    weights.show(Version::replaced, 0);
    CHECK(fixture.hidden_of(*streamed) == wanted);
    weights.show(Version::replaced, 1);
    const std::vector<double> moved = fixture.hidden_of(*streamed);
    CHECK(moved != wanted);
    const tt::Pair factors{tt::Matrix(intermediate, 3), tt::Matrix(3, hidden)};
    weights.replace(down, factors, 0);
    CHECK(weights.factors(down).rank == 0);  // the other size is selected
    CHECK(fixture.hidden_of(*streamed) == moved);
    weights.show(Version::replaced, 0);
    CHECK(weights.factors(down).rank == 3);
    CHECK(weights.factors(down).right - weights.factors(down).left == intermediate * 3);
    CHECK(weights.factors(value).rank == 0);
    // A matrix takes the place of factors.
    weights.replace(down, std::vector<double>(static_cast<std::size_t>(down.shape.elements())), 0);
    CHECK(weights.factors(down).rank == 0);
    CHECK(fixture.hidden_of(*streamed) != wanted);
    weights.restore();
    CHECK(fixture.hidden_of(*streamed) == wanted);
  }
  SECTION("a trial weight is read with either version") {
    layers::Parameter& down = find(*streamed, "layer.0.output.dense.weight");
    weights.try_out(down, std::vector<double>(static_cast<std::size_t>(down.shape.elements())));
    const std::vector<double> moved = fixture.hidden_of(*streamed);
    CHECK(moved != wanted);
    weights.show(Version::replaced);
    CHECK(fixture.hidden_of(*streamed) == moved);
    weights.end_trial();
    CHECK(fixture.hidden_of(*streamed) == wanted);
  }
}
