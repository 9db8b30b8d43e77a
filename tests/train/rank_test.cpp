#include <catch2/catch.hpp>
#include <cmath>

#include "lib/core/error.h"
#include "lib/train/optimizer.h"
#include "lib/train/rank_adaptation.h"
#include "tests/engine/toy_model.h"

using namespace comera;
using engine::Engine;

namespace {

plan::Machine reference(DType dtype) { return {&kernels::reference_backend(), dtype, nullptr}; }

const layers::ChainParameters& train_of(Engine& engine, const std::string& name) {
  for (const layers::ChainParameters& chain : engine.model().chains())
    if (chain.name == name) return chain;
  throw std::runtime_error(name);
}

void start(Engine& engine) {
  engine.allocate();
  engine.weights().initialise(11);
}

void begin_step(Engine& engine, std::int64_t step, double rate, double rank_rate) {
  engine.begin_step(5, {.step = step, .rates = {rate, rank_rate, rate, rate}});
}

void set(const layers::Parameter& diagonal, std::initializer_list<double> values) {
  std::int64_t i = 0;
  for (double value : values) layers::store(diagonal.value, i++, value);
}

}  // namespace

TEST_CASE("a slice keeps the given rows and columns in their order") {
  const std::vector<std::int32_t> in = {0, 1, 2, 10, 11, 12, 100, 101, 102, 110, 111, 112};  // [2, 2, 3]
  const std::vector<std::int64_t> left = {1}, right = {0, 2};
  const auto bytes = train::slice(std::as_bytes(std::span(in)), 4, 2, 3, left, right);
  std::vector<std::int32_t> out(4);
  REQUIRE(bytes.size() == 16);
  std::memcpy(out.data(), bytes.data(), 16);
  CHECK(out == std::vector<std::int32_t>{100, 102, 110, 112});
}

TEST_CASE("removal slices cores, diagonals and moments alike, and the loss differs by rounding only") {
  Engine engine(reference(DType::f64), toy::factory(DType::f64), {.update = train::optimizer()});
  start(engine);
  const data::Batch batch = toy::batch(0, 16), dev = toy::batch(1000, 32);
  for (int step = 0; step < 3; ++step) begin_step(engine, step, 1e-2, 1e-2), engine.train({&batch, 1});
  set(*train_of(engine, "up").diagonals[1], {0.9, 0.001, 0.8, 0.01, -0.5, 0.7});
  set(*train_of(engine, "table").diagonals[0], {0.9, 0.5, 0.0, 0.4});
  engine.weights_changed();
  const double before = engine.evaluate(dev).loss;
  const std::int64_t parameters = engine.model().parameters().count();
  const std::size_t planned = engine.weights().bytes();
  // G_1 of "up" is [3, 4, 6]; columns 0, 2, 5 stay.
  const layers::Parameter core = *train_of(engine, "up").cores[1];
  std::vector<double> wanted, wanted_moment;
  for (std::int64_t row = 0; row < 12; ++row)
    for (std::int64_t column : {0, 2, 5}) {
      wanted.push_back(layers::load(core.value, row * 6 + column));
      wanted_moment.push_back(layers::load(engine.weights().state(1, core.index), row * 6 + column));
    }
  const std::int64_t removed =
      train::remove_all_but(engine, train::above(train::read_diagonals(engine.weights()), 0.01));
  CHECK(removed == 4);
  CHECK(train_of(engine, "up").layout.ranks == std::vector<std::int64_t>{1, 3, 3, 4, 1});
  CHECK(train_of(engine, "up").initial_ranks == std::vector<std::int64_t>{1, 3, 6, 4, 1});
  CHECK(train_of(engine, "table").layout.ranks == std::vector<std::int64_t>{1, 3, 6, 1});
  CHECK(engine.evaluate(dev).loss == Approx(before).epsilon(1e-12));
  CHECK(engine.model().parameters().count() == parameters - 3 * (3 * 4 + 4 * 4) - (4 + 6 * 6));
  CHECK(engine.weights().bytes() < planned);
  const layers::Parameter& cut = *train_of(engine, "up").cores[1];
  for (std::int64_t i = 0; i < 36; ++i) {
    CHECK(layers::load(cut.value, i) == wanted[i]);
    CHECK(layers::load(engine.weights().state(1, cut.index), i) == wanted_moment[i]);
  }
  begin_step(engine, 3, 1e-2, 1e-2);
  engine.train({&batch, 1});
  CHECK(engine.state().scalars.finite == 1);
}

TEST_CASE("exported weights have no masked entries, and the engine keeps its own") {
  Engine engine(reference(DType::f64), toy::factory(DType::f64), {.update = train::optimizer()});
  start(engine);
  const data::Batch dev = toy::batch(1000, 32);
  engine.model().set_threshold(0.01);
  CHECK(&train::LiveWeights(engine).weights() == &engine.weights());
  set(*train_of(engine, "up").diagonals[1], {0.9, 0.001, 0.8, 0.01, -0.5, 0.7});
  engine.weights_changed();
  const double before = engine.evaluate(dev).loss;
  const train::LiveWeights live(engine);
  for (const layers::ChainParameters& chain : live.weights().model().chains())
    for (const layers::Parameter* diagonal : chain.diagonals)
      for (std::int64_t i = 0; i < diagonal->shape.elements(); ++i) CHECK(layers::load(diagonal->value, i) > 0.01);
  CHECK(live.weights().model().parameters().rank_entries() == engine.model().parameters().rank_entries() - 3);
  CHECK(train_of(engine, "up").layout.ranks == std::vector<std::int64_t>{1, 3, 6, 4, 1});
  CHECK(engine.evaluate(dev).loss == before);
  // A model of the exported weights computes the same.
  Engine again(reference(DType::f64), toy::factory(DType::f64), {},
               train::ranks_of(engine.model(), train::above(train::read_diagonals(engine.weights()), 0.01)));
  again.allocate();
  for (const layers::Parameter& parameter : live.weights().model().parameters().all())
    std::memcpy(again.model().parameters().find(parameter.name)->value.data, parameter.value.data,
                parameter.value.bytes());
  again.weights_changed();
  CHECK(again.evaluate(dev).loss == Approx(before).epsilon(1e-12));
  // Without a threshold no entry is masked.
  engine.model().set_threshold(-std::numeric_limits<double>::infinity());
  CHECK(&train::LiveWeights(engine).weights() == &engine.weights());
}

TEST_CASE("an empty bond reduces the layer to its bias") {
  Engine engine(reference(DType::f64), toy::factory(DType::f64), {.update = train::optimizer()});
  start(engine);
  const data::Batch dev = toy::batch(1000, 8);
  set(*train_of(engine, "up").diagonals[1], {0.001, -1, 0, 0, 0, 0.005});
  const double before = engine.evaluate(dev).loss;
  train::RemovedByBond places;
  CHECK(train::remove_all_but(engine, train::above(train::read_diagonals(engine.weights()), 0.01), &places) == 13);
  std::int64_t lost = 0;
  for (const auto& [chain, bonds] : places)
    for (const std::int64_t entries : bonds) lost += entries;
  CHECK(lost == 13);
  CHECK(train_of(engine, "up").cores.empty());
  CHECK(train_of(engine, "up").layout.ranks == std::vector<std::int64_t>{1, 0, 0, 0, 1});
  CHECK(engine.model().parameters().find("up.bias") != nullptr);
  CHECK(engine.evaluate(dev).loss == Approx(before).epsilon(1e-12));
  engine.train({&dev, 1});
  CHECK(engine.state().scalars.finite == 1);
}

TEST_CASE("a cut meets its target within the tolerance, on either side of the threshold") {
  std::vector<train::ChainDiagonals> chains;
  for (int c = 0; c < 6; ++c) {
    train::ChainDiagonals chain{"chain", {12, 8, 8, 12}, {{}, {}, {}}};
    for (std::size_t bond = 0; bond < 3; ++bond)
      for (int i = 0; i < 10; ++i)
        chain.diagonals[bond].push_back(0.001 * ((c * 31 + static_cast<int>(bond) * 17 + i * 7) % 97));
    chains.push_back(chain);
  }
  const double full = static_cast<double>(train::size_of(chains, train::above(chains, -1)));
  for (double fraction : {0.9, 0.5, 0.3, 0.1})
    for (double per_entry : {0.0, 1.0}) {
      const train::SizeTarget target{fraction * full, per_entry, 0};
      const train::Kept kept = train::cut_to(chains, target);
      CHECK(target.measure(chains, kept) <= 1.02 * target.size);
      CHECK(target.measure(chains, kept) >= 0.98 * target.size);
    }
}

TEST_CASE("targets beyond the uncompressed rest are refused with the limit") {
  Engine engine(reference(DType::f32), toy::factory(DType::f32), {.update = train::optimizer()});
  const auto adapt = [&](train::TargetKind kind, double value) {
    train::RankOptions options;
    options.target = kind;
    options.target_value = value;
    return train::RankAdaptation(engine, options).whole_target();
  };
  const double dense = 24 * 12 + 12 * 16 + 16 + 16 * 3 + 3, rest = 16 + 16 * 3 + 3;
  CHECK(adapt(train::TargetKind::ratio, 4) == Approx(dense / 4));
  CHECK_THROWS_WITH(adapt(train::TargetKind::ratio, 10),
                    Catch::Contains("--target-ratio 10") && Catch::Contains(fmt::format("{:.2f}", dense / rest)));
  CHECK_THROWS_WITH(adapt(train::TargetKind::bytes, 500),
                    Catch::Contains("--target-size of 500 bytes cannot be reached"));
  CHECK_NOTHROW(adapt(train::TargetKind::bytes, 2500));
}

TEST_CASE("the late stage reaches its target within 2 % and stops pruning there") {
  Engine engine(reference(DType::f32), toy::factory(DType::f32, {16, false, 0.0, true}),
                {.update = train::optimizer()});
  start(engine);
  train::RankOptions options;
  options.target = train::TargetKind::ratio;
  options.target_value = 3;
  options.prune_every = 20;
  options.late_start = 60;
  options.scheduled_cuts = 0;
  train::RankAdaptation ranks(engine, options);
  std::int64_t reached_at = -1;
  double size_at_end = 0;
  for (std::int64_t step = 0; step < 1200; ++step) {
    begin_step(engine, step, 3e-3, 2e-2);
    ranks.before_step(step);
    const data::Batch batch = toy::batch(step * 16, 16);
    engine.train({&batch, 1});
    REQUIRE(engine.state().scalars.finite == 1);
    const train::RankAdaptation::Event event = ranks.after_step(step + 1);
    if (event.target_met) {
      CHECK(ranks.progress().cut == 0);
      CHECK(ranks.progress().fallen > 0);
      reached_at = step;
      size_at_end = static_cast<double>(engine.model().parameters().count());
    }
  }
  REQUIRE(reached_at > 60);
  CHECK(reached_at < 1100);
  const double ratio =
      static_cast<double>(engine.model().parameters_dense()) / static_cast<double>(engine.model().parameters().count());
  CHECK(ratio == Approx(3).epsilon(0.02));
  CHECK(size_at_end == static_cast<double>(engine.model().parameters().count()));
  CHECK(engine.state().rank.size_weight == 0);
  CHECK(engine.state().rank.weight_norm == 1);
  const data::Batch dev = toy::batch(100000, 64);
  CHECK(engine.evaluate(dev).correct > 56);
}

TEST_CASE("a tolerance measures the loss of the late stage by what the early stage has learned") {
  Engine engine(reference(DType::f64), toy::factory(DType::f64, {16, false, 0.0, true}),
                {.update = train::optimizer()});
  start(engine);
  train::RankOptions options;
  options.target = train::TargetKind::ratio;
  options.target_value = 3;
  options.scheduled_cuts = 0;
  options.late_start = 150;  // the mean of the last losses begins behind the first ones
  options.loss_tolerance = 0.02;
  train::RankAdaptation ranks(engine, options);
  double first = 0;
  int pushes = 0, waits = 0;
  for (std::int64_t step = 0; step < 200; ++step) {
    const double rate = step < 50 ? 3e-4 : 0;  // then the loss varies with the batch alone
    begin_step(engine, step, rate, rate);
    ranks.before_step(step);
    const data::Batch batch = toy::batch(step * 16, 16);
    engine.train({&batch, 1});
    const double loss = engine.state().loss[0];
    if (step < train::RankAdaptation::first_steps) first += loss / train::RankAdaptation::first_steps;
    const kernels::RankState& state = engine.state().rank;
    if (step < options.late_start) {
      CHECK(state.weight_loss == 0);
    } else {
      const double learned = first - ranks.progress().target_loss;
      REQUIRE(learned > 0.1 * ranks.progress().target_loss);
      CHECK(state.weight_loss == Approx(1 / (options.loss_tolerance * learned)));
      const double excess = (state.size - state.target_size) / state.size;
      CHECK((state.pushes_size == 1) == ((loss - state.target_loss) / (options.loss_tolerance * learned) < excess));
      (state.pushes_size == 1 ? pushes : waits)++;
    }
    ranks.after_step(step + 1);
  }
  CHECK(pushes > 0);
  CHECK(waits > 0);
  CHECK(train::RankProgress::from_json(ranks.progress().to_json()).first_loss == Approx(first));
  // A run that began with a learned model.
  train::RankAdaptation resumed(engine, options, {.late = true, .first_loss = 1.9, .target_loss = 2, .recent = {}});
  resumed.before_step(200);
  CHECK(engine.state().rank.weight_loss == Approx(1 / (options.loss_tolerance * 0.2)));
}

TEST_CASE(
    "entries that fell to the threshold and entries that were cut have separate counts, also after a checkpoint") {
  Engine engine(reference(DType::f32), toy::factory(DType::f32, {16, false, 0.0, true}),
                {.update = train::optimizer()});
  start(engine);
  const std::int64_t entries = engine.model().parameters().rank_entries();
  train::RankOptions options;
  options.target = train::TargetKind::ratio;
  options.target_value = 3;
  options.prune_every = 5;
  options.late_start = 10;
  options.late_deadline = 26;
  train::RankAdaptation ranks(engine, options);
  std::int64_t fallen = 0, cut = 0;
  for (std::int64_t step = 0; step < 30; ++step) {
    begin_step(engine, step, 3e-3, 1e-3);  // too slow for an entry to fall from 1 to the threshold
    if (step == 3) set(*train_of(engine, "up").diagonals[1], {1, 1, 0.001, 1, 1, 1});
    const train::RankAdaptation::Event before = ranks.before_step(step);
    const data::Batch batch = toy::batch(step * 16, 16);
    engine.train({&batch, 1});
    const train::RankAdaptation::Event after = ranks.after_step(step + 1);
    fallen += before.fallen + after.fallen, cut += before.cut + after.cut;
  }
  CHECK(ranks.progress().reached);
  CHECK_FALSE(ranks.pushing());
  const kernels::RankState& state = engine.state().rank;  // cuts: the loss alone
  CHECK(std::vector<double>{state.late, state.loss_weight, state.size_weight, state.weight_norm} ==
        std::vector<double>{0, 1, 0, 0});
  CHECK(fallen == 1);
  CHECK(cut > 0);
  CHECK(ranks.progress().fallen == fallen);
  CHECK(ranks.progress().cut == cut);
  CHECK(entries - engine.model().parameters().rank_entries() == fallen + cut);
  const train::RankProgress read = train::RankProgress::from_json(ranks.progress().to_json());
  CHECK(read.fallen == fallen);
  CHECK(read.cut == cut);
}

TEST_CASE("floors: the largest entries of a bond stay, whatever their values are") {
  train::ChainDiagonals free{"free", {4, 4, 4}, {{0.5, 0.001, 0.4}, {0.3, 0.2}}};
  train::ChainDiagonals floored{"floored", {4, 4, 4}, {{-1, 0.004, 0.002}, {0.001, 0.9}}, 2};
  const std::vector<train::ChainDiagonals> chains{free, floored};
  const train::Kept live = train::above(chains, 0.01);
  CHECK(live[0] == std::vector<std::vector<std::int64_t>>{{0, 2}, {0, 1}});
  CHECK(live[1] == std::vector<std::vector<std::int64_t>>{{1, 2}, {0, 1}});
  CHECK(train::floors_of(chains)[0] == std::vector<std::vector<std::int64_t>>{{}, {}});
  CHECK(train::floors_of(chains)[1] == live[1]);
  // Floors take 2 * 4 + 2 * 4 * 2 + 2 * 4 = 32 entries. 56 leave 24 for the other chain: ranks 2 and 1.
  const train::Kept cut = train::cut_to(chains, {.size = 56});
  CHECK(cut[1] == live[1]);
  CHECK(cut[0] == std::vector<std::vector<std::int64_t>>{{0, 2}, {0}});
  CHECK(train::cut_to(chains, {.size = 1})[1] == live[1]);
}

TEST_CASE("floors: words become ranks by name, and what makes no sense is refused") {
  const auto floors = train::parse_rank_floors({"2", "*.output=4"});
  std::vector<train::ChainDiagonals> chains{{"a.query", {}, {}}, {"a.output", {}, {}}};
  train::set_floors(chains, floors);
  CHECK(chains[0].floor == 2);
  CHECK(chains[1].floor == 4);
  CHECK_THROWS_WITH(train::set_floors(chains, train::parse_rank_floors({"b*=2"})),
                    Catch::Contains("--rank-floor b*=2: no layer") && Catch::Contains("a.query, a.output"));
  for (const char* word : {"0", "-1", "x", "", "a=", "=3", "a=b", "99999999999999999999"})
    CHECK_THROWS_WITH(train::parse_rank_floors({word}), Catch::Contains(std::string("--rank-floor ") + word + ":"));
}

// Whatever the loss wants, a bond of "up" falls.
TEST_CASE("floors: a layer keeps ranks that would be removed, and they are not masked") {
  const auto ranks_at_end = [](const std::vector<train::RankFloor>& floors) {
    Engine engine(reference(DType::f32), toy::factory(DType::f32), {.update = train::optimizer()});
    start(engine);
    train::RankOptions options;
    options.prune_every = 5;
    options.floors = floors;
    train::RankAdaptation ranks(engine, options);
    for (std::int64_t step = 0; step < 12; ++step) {
      begin_step(engine, step, 3e-3, 1e-3);
      if (step == 2) set(*train_of(engine, "up").diagonals[1], {-1, -2, -1.5, 0.001, -3, -1.1});
      ranks.before_step(step);
      const data::Batch batch = toy::batch(step * 16, 16);
      engine.train({&batch, 1});
      ranks.after_step(step + 1);
      if (floors.empty()) continue;
      const std::vector<train::ChainDiagonals> chains = train::read_diagonals(engine.weights());
      for (std::size_t c = 0; c < chains.size(); ++c)
        if (chains[c].name == "up") CHECK(train::above(chains, options.threshold)[c][1].size() >= 3);
    }
    return train_of(engine, "up").layout.ranks;
  };
  CHECK(ranks_at_end({}) == std::vector<std::int64_t>{1, 0, 0, 0, 1});
  CHECK(ranks_at_end({{"up", 3}}) == std::vector<std::int64_t>{1, 3, 3, 4, 1});
}

TEST_CASE("floors beyond the target are refused before the first step") {
  Engine engine(reference(DType::f32), toy::factory(DType::f32), {.update = train::optimizer()});
  train::RankOptions options;
  options.target = train::TargetKind::fraction;
  options.target_value = 0.05;
  options.floors = {{"", 3}};
  CHECK_THROWS_WITH(train::RankAdaptation(engine, options), Catch::Contains("the floors of --rank-floor alone keep"));
}
