// Ten steps of each method against an independent implementation (tests/oracle/memory_methods.py), in double on the
// reference.
#include "tests/oracle/memory_methods.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <span>

#include "lib/engine/engine.h"
#include "lib/layers/activations/policy.h"
#include "lib/train/optimizer.h"
#include "tests/engine/toy_model.h"
#include "tests/oracle/adagrad.h"
#include "tests/oracle/muon.h"

using namespace comera;
using engine::Engine;
using layers::Activations;
using layers::Parameter;

namespace {

constexpr const char* names[] = {"table.weight", "up.weight", "up.bias", "down.weight", "down.bias"};

std::unique_ptr<Engine> engine_of(const Activations& activations, const train::OptimizerOptions& options) {
  const plan::Machine machine{&kernels::reference_backend(), DType::f64, nullptr};
  engine::EngineOptions settings{.recompute = activations.recompute, .update = train::optimizer(options)};
  if (!activations.rules.empty()) settings.keeper = std::make_shared<layers::RuledKeeper>(activations);
  auto engine = std::make_unique<Engine>(machine, toy::factory(DType::f64, {.dense = true, .dropout = 0}), settings);
  engine->allocate();
  for (int k = 0; k < 5; ++k) {
    const Parameter* parameter = engine->model().parameters().find(names[k]);
    REQUIRE(parameter);
    for (std::int64_t i = 0; i < parameter->shape.elements(); ++i)
      layers::store(parameter->value, i, 0.3 * std::sin(1.7 * static_cast<double>(i) + k));
  }
  engine->weights_changed();
  return engine;
}

// `parts`: micro-batches of a step.
std::vector<double> after_ten_steps(Engine& engine, int parts) {
  for (int step = 0; step < 10; ++step) {
    engine.begin_step(9, {.step = step, .rates = {0, 0, 0.02, 0.02}});
    std::vector<data::Batch> batches;
    for (int part = 0; part < parts; ++part) batches.push_back(toy::batch(16 * step + part * (16 / parts), 16 / parts));
    engine.train(batches);
  }
  std::vector<double> numbers;
  for (const char* name : {"up.weight", "down.weight"}) {
    const Parameter* parameter = engine.model().parameters().find(name);
    for (std::int64_t i = 0; i < parameter->shape.elements(); ++i) numbers.push_back(layers::load(parameter->value, i));
  }
  return numbers;
}

// The numbers of all parameters after a step with these rates.
std::vector<std::vector<double>> after_step(const engine::UpdateStep& step) {
  const auto engine = engine_of({}, {});
  engine->begin_step(9, step);
  std::vector<data::Batch> batches;
  batches.push_back(toy::batch(0, 16));
  engine->train(batches);
  std::vector<std::vector<double>> all;
  for (const char* name : names) {
    const Parameter* parameter = engine->model().parameters().find(name);
    for (all.emplace_back(); std::ssize(all.back()) < parameter->shape.elements();)
      all.back().push_back(layers::load(parameter->value, std::ssize(all.back())));
  }
  return all;
}

train::OptimizerOptions options() {
  train::OptimizerOptions options;
  options.max_norm = 0.5;
  options.adamw.weight_decay = 0.1;
  return options;
}

// The numbers are printed with 15 digits. A rounding of a gradient is up to 1e-16 of it; Adam's direction passes on its
// relative error, tenfold where the two moments nearly cancel, in ten steps of at most 0.02.
void check(const std::vector<double>& found, std::span<const double> wanted) {
  REQUIRE(found.size() == wanted.size());
  for (std::size_t i = 0; i < found.size(); ++i) CHECK(std::abs(found[i] - wanted[i]) < 1e-11);
}

Activations compact() {
  Activations activations = layers::parse_activations({"compact"});
  activations.projected = {.kind = kernels::SketchKind::normal, .rank = 5, .refresh = 4, .scale = 0.7};
  return activations;
}

Activations velora() {
  Activations activations = layers::parse_activations({"velora"});
  activations.directions = {.group = 4, .scale = 1.5};
  return activations;
}

}  // namespace

TEST_CASE("train: a table has a learning rate of its own") {
  const auto before = after_step({}), table = after_step({.rates = {0, 0, 0, 0.02}}),
             others = after_step({.rates = {0, 0, 0.02, 0}}), both = after_step({.rates = {0, 0, 0.02, 0.02}});
  CHECK(table[0] != before[0]);
  CHECK(others[0] == before[0]);
  CHECK(both[0] == table[0]);
  for (std::size_t k = 1; k < before.size(); ++k) {
    CHECK(table[k] == before[k]);
    CHECK(others[k] != before[k]);
    CHECK(both[k] == others[k]);
  }
}

TEST_CASE("memory methods: AdamW is that of the formulas") {
  check(after_ten_steps(*engine_of({}, options()), 1), oracle::adamw);
}

namespace {

train::OptimizerOptions method(const char* word) {
  train::OptimizerOptions settings = options();
  settings.methods.rules = train::parse_methods({word});
  return settings;
}

}  // namespace

TEST_CASE("memory methods: adagrad and sgd are PyTorch's, with weight decay apart from the gradient") {
  const auto adagrad = engine_of({}, method("adagrad")), sgd = engine_of({}, method("sgd"));
  for (const char* name : names) {
    const Parameter &one = *adagrad->model().parameters().find(name), &other = *sgd->model().parameters().find(name);
    CHECK(adagrad->weights().state(0, one.index).shape == Shape{0});
    CHECK(adagrad->weights().state(2, one.index).shape == one.shape);
    for (std::size_t which = 0; which < sgd->weights().state().size(); ++which)
      CHECK(sgd->weights().state(which, other.index).shape == Shape{0});
  }
  check(after_ten_steps(*adagrad, 1), oracle::adagrad);
  check(after_ten_steps(*sgd, 1), oracle::sgd);
}

// The polynomial multiplies a rounding by up to 500: 10 steps of 0.02 * 0.2 * 4 * 500 * 1e-16 or so.
TEST_CASE("memory methods: muon is that of the singular values, with one moment, and of dense weights by name alone") {
  const auto engine = engine_of({}, method("*=muon"));
  for (const char* name : names) {
    const Parameter& one = *engine->model().parameters().find(name);
    const bool taken = one.linear && one.decay;
    CHECK((engine->weights().state(2, one.index).shape == one.shape) == taken);
    CHECK((engine->weights().state(0, one.index).shape == Shape{0}) == taken);
  }
  check(after_ten_steps(*engine, 1), oracle::muon);
  CHECK_THROWS_WITH(engine_of({}, method("muon")),
                    Catch::Contains("the model has no linear weight in TT or low-rank form"));
  CHECK_THROWS_WITH(engine_of(compact(), method("*=muon")), Catch::Contains("--optimizer muon needs whole gradients"));
}

TEST_CASE("memory methods: adagrad is refused on a gradient in a subspace; sgd has no state that a new one would mix") {
  CHECK_THROWS_WITH(engine_of(compact(), method("adagrad")),
                    Catch::Contains("--optimizer adagrad needs whole gradients"));
  CHECK_NOTHROW(after_ten_steps(*engine_of(compact(), method("sgd")), 1));
}

TEST_CASE("memory methods: under adagrad and sgd, of all layers or by name, rank diagonals keep AdamW") {
  for (const char* word : {"adagrad", "sgd"}) {
    const plan::Machine machine{&kernels::reference_backend(), DType::f64, nullptr};
    Engine engine(machine, toy::factory(DType::f64), {.update = train::optimizer(method(word))});
    const train::MethodChoice choice({.rules = train::parse_methods({word})});
    int diagonals = 0;
    for (const Parameter& parameter : engine.model().parameters().all()) {
      const bool is_diagonal = parameter.role == layers::Role::diagonal;
      diagonals += is_diagonal;
      CHECK(choice.number_of(parameter) == (is_diagonal ? 0 : 1));
    }
    CHECK(diagonals > 0);
    const train::MethodChoice named({.rules = train::parse_methods({std::string("up=") + word})});
    for (const Parameter& parameter : engine.model().parameters().all())
      CHECK(named.number_of(parameter) ==
            (parameter.name.starts_with("up.") && parameter.role != layers::Role::diagonal ? 1 : 0));
  }
}

TEST_CASE("memory methods: compact is CompAct of the formulas, with any number of micro-batches") {
  for (const int parts : {1, 2, 4}) check(after_ten_steps(*engine_of(compact(), options()), parts), oracle::compact);
}

TEST_CASE("memory methods: velora is VeLoRA of the formulas, with its vector as a state that the first step sets") {
  const auto engine = engine_of(velora(), options());
  const Parameter& up = *engine->model().parameters().find("up.weight");  // [12, 16]
  const std::size_t last = engine->weights().state().size() - 1;
  REQUIRE(engine->weights().state()[last].name == "direction");
  const layers::Tensor vector = engine->weights().state(last, up.index);
  CHECK(vector.shape == Shape{4});
  CHECK(engine->weights().state(last, engine->model().parameters().find("down.weight")->index).shape == Shape{0});
  CHECK(layers::load(vector, 0) == 0);
  check(after_ten_steps(*engine, 1), oracle::velora);
  double squares = 0;
  for (std::int64_t j = 0; j < 4; ++j) squares += std::pow(layers::load(vector, j), 2);
  CHECK(std::abs(squares - 1) < 1e-14);
  CHECK(engine_of({}, options())->weights().state().size() == last);  // other runs have no such state
}

TEST_CASE("memory methods: apollo-mini is APOLLO-Mini of the formulas, with a row of moments per weight") {
  train::OptimizerOptions settings = options();
  settings.methods.rules = train::parse_methods({"apollo-mini"}), settings.methods.least_elements = 100;
  const auto engine = engine_of({}, settings);
  const Parameter& up = *engine->model().parameters().find("up.weight");  // [12, 16]
  CHECK(engine->weights().state(0, up.index).shape == Shape{0});
  CHECK(engine->weights().state(2, up.index).shape == Shape{16});
  check(after_ten_steps(*engine, 1), oracle::apollo_mini);
}

namespace {

train::OptimizerOptions galore(const char* word, std::int64_t rank) {
  train::OptimizerOptions settings = options();
  settings.methods = {.rules = train::parse_methods({word}),
                      .least_elements = 40,
                      .galore = {.rank = rank, .refresh = 4, .scale = 0.7}};
  return settings;
}

}  // namespace

// The first gradient has rank 2: further vectors would be arbitrary. The power iteration keeps 10 of 12 vectors, and
// the eleventh singular value is at most 1e-4 of the second, so 8 powers leave nothing beside them.
TEST_CASE("memory methods: galore is GaLore of the formulas, on rows and on columns") {
  const auto rows = engine_of({}, galore("galore", 2)), columns = engine_of({}, galore("down=galore", 2));
  const Parameter& up = *rows->model().parameters().find("up.weight");         // [12, 16]
  const Parameter& down = *columns->model().parameters().find("down.weight");  // [16, 3]
  const auto state = [](Engine& engine, std::size_t which, const Parameter& parameter) {
    return engine.weights().state(which, parameter.index).shape;
  };
  CHECK(state(*rows, 0, up) == Shape{0});
  CHECK(state(*rows, 2, up) == Shape{2, 12});
  CHECK(state(*rows, 4, up) == Shape{2, 16});
  CHECK(state(*columns, 2, down) == Shape{2, 3});
  CHECK(state(*columns, 5, down) == Shape{16, 2});
  CHECK(state(*rows, 2, *rows->model().parameters().find("down.weight")) == Shape{0});  // no layer of a block
  check(after_ten_steps(*rows, 1), oracle::galore_rows);
  check(after_ten_steps(*columns, 1), oracle::galore_columns);
}

namespace {

std::unique_ptr<Engine> at_once(const char* word, const Activations& activations = {}) {
  train::OptimizerOptions settings = options();
  settings.max_norm = 0;
  settings.methods = {
      .rules = train::parse_methods({word}), .least_elements = 100, .lomo = {.scale = 0.5, .clip = 0.05}};
  return engine_of(activations, settings);
}

}  // namespace

TEST_CASE("memory methods: lomo and adalomo are those of the formulas and keep no gradient") {
  const auto lomo = at_once("lomo"), adalomo = at_once("adalomo"), adamw = engine_of({}, options());
  const Parameter &up = *lomo->model().parameters().find("up.weight"),
                  &other = *adalomo->model().parameters().find("up.weight");  // [12, 16]
  CHECK(up.at_once);
  CHECK_FALSE(lomo->model().parameters().find("down.weight")->at_once);  // no layer of a block
  CHECK(lomo->weights().state(0, up.index).shape == Shape{0});
  CHECK(adalomo->weights().state(2, other.index).shape == Shape{12});
  CHECK(adalomo->weights().state(3, other.index).shape == Shape{16});
  check(after_ten_steps(*lomo, 1), oracle::lomo);
  check(after_ten_steps(*adalomo, 1), oracle::adalomo);
  after_ten_steps(*adamw, 1);
  const auto kept = [](Engine& engine) { return engine.model().step_gradients().bytes(); };
  CHECK(kept(*adamw) - kept(*lomo) >= 12 * 16 * sizeof(double));
  CHECK(lomo->state().applied_square_sum > 0);
  for (const char* word : {"lomo", "adalomo"}) {
    Activations block = layers::parse_activations({"block"});
    check(after_ten_steps(*at_once(word, block), 1),
          word == std::string("lomo") ? std::span<const double>(oracle::lomo) : oracle::adalomo);
  }
}

TEST_CASE("memory methods: lomo is refused with clipping of all gradients, adapted ranks and gradients in a subspace") {
  train::OptimizerOptions settings = options();
  settings.methods = {.rules = train::parse_methods({"lomo"}), .least_elements = 100};
  CHECK_THROWS_WITH(engine_of({}, settings), Catch::Contains("use --clip 0 with --lomo-clip"));
  CHECK_THROWS_WITH(at_once("lomo", compact()), Catch::Contains("--optimizer lomo needs whole gradients"));
}

// A step whose loss is not finite changes no weight, at once or at the end.
TEST_CASE("memory methods: lomo and adalomo change nothing in a step that is not finite") {
  for (const char* word : {"lomo", "adalomo"}) {
    const auto engine = at_once(word);
    const Parameter &up = *engine->model().parameters().find("up.weight"),
                    &bias = *engine->model().parameters().find("down.bias");
    layers::store(bias.value, 0, std::nan(""));
    const auto bytes = [&] {
      const auto* first = static_cast<const std::byte*>(up.value.data);
      return std::vector<std::byte>(first, first + up.value.bytes());
    };
    const std::vector<std::byte> before = bytes();
    engine->begin_step(9, {.step = 0, .rates = {0, 0, 0.02, 0.02}});
    const data::Batch batch = toy::batch(0, 16);
    engine->train({&batch, 1});
    CHECK(engine->state().scalars.finite == 0);
    CHECK(bytes() == before);
  }
}

// The first step from moments of zero is that of 32 bits, in float.
TEST_CASE("memory methods: galore8bit begins as galore and has moments in bytes") {
  std::vector<std::vector<double>> weights;
  for (const char* word : {"galore", "galore8bit"}) {
    const auto engine = engine_of({}, galore(word, 2));
    engine->begin_step(9, {.step = 0, .rates = {0, 0, 0.02, 0.02}});
    std::vector<data::Batch> batches;
    batches.push_back(toy::batch(0, 16));
    engine->train(batches);
    const Parameter& up = *engine->model().parameters().find("up.weight");
    CHECK(engine->weights().state(4, up.index).dtype == (word == std::string("galore") ? DType::f64 : DType::u8));
    std::vector<double>& numbers = weights.emplace_back();
    for (std::int64_t i = 0; i < up.shape.elements(); ++i) numbers.push_back(layers::load(up.value, i));
  }
  // Two terms of at most lr alpha, each with a few roundings to float; P has entries of at most 1.
  for (std::size_t i = 0; i < weights[0].size(); ++i)
    CHECK(std::abs(weights[0][i] - weights[1][i]) < 2 * 0.02 * 0.7 * 16 * 0x1p-24 + 0x1p-24 * std::abs(weights[0][i]));
}

// The update is in float, and ten steps pass its roundings on. They must stay below what one code beside the right one
// does to one weight in one step: lr alpha times half the distance of two codes near 1, 0.9 / 64 / 2. The sign of the
// singular vector is arbitrary, and the code book of first moments is not symmetric: 1, but -0.993.
TEST_CASE("memory methods: galore8bit is GaLore of the formulas with moments in codes of 8 bits") {
  const auto error = [](const char* word, std::span<const double> wanted) {
    const std::vector<double> found = after_ten_steps(*engine_of({}, galore(word, 1)), 1);
    REQUIRE(found.size() == wanted.size());
    double largest = 0;
    for (std::size_t i = 0; i < found.size(); ++i) largest = std::max(largest, std::abs(found[i] - wanted[i]));
    return largest;
  };
  const auto nearest = [&](const char* word) {
    return std::min(error(word, oracle::galore8bit_positive), error(word, oracle::galore8bit_negative));
  };
  constexpr double one_code = 0.02 * 0.7 * 0.9 / 128;
  CHECK(nearest("galore8bit") < one_code);
  CHECK(nearest("galore") > one_code);
}

TEST_CASE("memory methods: of rules by name the last that takes a weight counts") {
  const auto methods = [](const std::vector<std::string>& words) {
    return train::MethodChoice({.rules = train::parse_methods(words), .least_elements = 40, .galore = {.rank = 2}});
  };
  const auto engine = engine_of({}, options());
  layers::Parameters& parameters = engine->model().parameters();
  const auto number = [&](const train::MethodChoice& choice, const char* name) {
    return choice.number_of(*parameters.find(name));
  };
  const train::MethodChoice choice = methods({"adamw8bit", "u*=galore", "*p=apollo-mini", "down=adamw"});
  CHECK(number(choice, "up.weight") == 3);  // adamw, adamw8bit, galore, apollo-mini
  CHECK(number(choice, "up.bias") == 0);
  CHECK(number(choice, "down.weight") == 0);
  CHECK(number(choice, "table.weight") == 0);
  CHECK(number(methods({"up=galore", "adamw8bit"}), "up.weight") ==
        1);  // a later method for all replaces what is before
  CHECK(number(methods({"adamw8bit", "down=galore"}), "up.weight") == 1);
  CHECK_THROWS_WITH(methods({"q*=galore"}).check(parameters),
                    Catch::Contains("no layer of the model matches; its layers are table, up, down"));
  CHECK_THROWS_WITH(methods({"table=galore"}).check(parameters),
                    Catch::Contains("table=galore: what matches has no dense linear weight"));
  CHECK_THROWS_WITH(methods({"up=galor"}), Catch::Contains("there is no method 'galor'; did you mean galore?"));
  CHECK_THROWS_WITH(methods({"=galore"}), Catch::Contains("no layer is named"));
  CHECK_THROWS_WITH(methods({"up=galore", "*=adamw"}).check(parameters),
                    Catch::Contains("--optimizer up=galore: has no effect, because the last word"));
  CHECK_NOTHROW(methods({"*=adamw", "up=galore"}).check(parameters));
  CHECK_NOTHROW(
      methods({"*=apollo-mini", "up=galore", "down=galore"}).check(parameters));  // tables may be linear elsewhere
  // a method that does not take a weight leaves it to the one before
  CHECK(number(methods({"adamw8bit", "*=apollo-mini"}), "down.weight") == 2);
  CHECK(number(methods({"adamw8bit", "*=muon"}), "table.weight") == 0);
  CHECK(number(methods({"sgd", "*=galore"}), "up.weight") == 2);
  CHECK(number(methods({"sgd", "*=galore"}), "up.bias") == 1);
  CHECK(train::counted_methods({}) == std::vector<std::string>{"adamw"});
  CHECK(train::counted_methods({"a=galore", "adamw8bit", "b=galore"}) ==
        std::vector<std::string>{"adamw8bit", "b=galore"});
  CHECK(train::counted_methods({"b=galore"}, "muon") == std::vector<std::string>{"muon", "b=galore"});
}

TEST_CASE("memory methods: galore above the smaller side and on a gradient in a subspace is refused") {
  CHECK_THROWS_WITH(engine_of({}, galore("galore", 13)), Catch::Contains("--galore-rank 13: 'up.weight' is 12 x 16"));
  CHECK_THROWS_WITH(engine_of(compact(), galore("galore", 5)),
                    Catch::Contains("--optimizer galore needs whole gradients"));
}

TEST_CASE("memory methods: compact keeps gradients and moments in the subspace") {
  const auto engine = engine_of(compact(), options());
  const Parameter& up = *engine->model().parameters().find("up.weight");
  CHECK(up.gradient_shape() == Shape{5, 16});
  CHECK(engine->weights().state(0, up.index).shape == Shape{5, 16});
  CHECK(engine->weights().state(1, up.index).shape == Shape{5, 16});
  const Parameter& down = *engine->model().parameters().find("down.weight");
  CHECK(down.gradient_shape() == down.shape);
}
