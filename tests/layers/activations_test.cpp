#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "lib/core/error.h"
#include "lib/layers/activations/policy.h"
#include "lib/layers/activations/quantised.h"
#include "lib/tt/matrix.h"
#include "tests/layers/walks.h"

using namespace comera;
using layers::Activations;
using layers::Recompute;
using layers::Slot;
using layers::Tensor;
using layers::Use;
using layers::Walk;

namespace {

// A matrix through a copy of these settings and back, by the reference in f32.
tt::Matrix restored(const tt::Matrix& x, const layers::QuantisedSettings& settings) {
  tt::Matrix result(x.rows, x.columns);
  const auto keeper = layers::make_quantised_keeper(settings);
  walk_twice(DType::f32, [&](Walk& walk) {
    keeper->begin(nullptr);
    Slot slot;
    Tensor tensor = walk.make("x", {x.rows, x.columns});
    auto* numbers = static_cast<float*>(tensor.data);
    if (walk.computes()) std::copy(x.values.begin(), x.values.end(), numbers);
    keeper->keep(walk, tensor, Use::value, slot);
    walk.drop(tensor);
    Tensor back = slot->value(walk);
    if (walk.computes()) std::copy_n(static_cast<const float*>(back.data), result.values.size(), result.values.begin());
    walk.drop(back);
  });
  return result;
}

tt::Matrix normal_matrix(std::int64_t rows, std::int64_t columns, std::mt19937& random) {
  std::normal_distribution<double> normal;
  tt::Matrix a(rows, columns);
  for (double& value : a.values) value = normal(random);
  return a;
}

// The gradients of the three input cores of a TT layer of 12 * 8 * 8 inputs with ranks 12, 30, 30, from the gradient of
// its left factor [768, 30].
std::vector<tt::Matrix> core_gradients(const tt::Matrix& first, const tt::Matrix& second, const tt::Matrix& third,
                                       const tt::Matrix& d_left) {
  const tt::Matrix two = tt::reshaped(tt::multiply(first, second), 96, 30);  // [(i1 i2), r2]
  const tt::Matrix d_two = tt::multiply_nt(tt::reshaped(d_left, 96, 8 * 30), tt::reshaped(third, 30, 8 * 30));
  return {tt::multiply_nt(tt::reshaped(d_two, 12, 8 * 30), second),
          tt::multiply_tn(first, tt::reshaped(d_two, 12, 8 * 30)),
          tt::multiply_tn(two, tt::reshaped(d_left, 96, 8 * 30))};
}

double largest_error(const std::vector<tt::Matrix>& exact, const std::vector<tt::Matrix>& found) {
  double largest = 0;
  for (std::size_t i = 0; i < exact.size(); ++i)
    largest =
        std::max(largest, std::sqrt(tt::squared_norm(tt::difference(exact[i], found[i])) / tt::squared_norm(exact[i])));
  return largest;
}

}  // namespace

// 1,024 tokens of 768 features of equal variance, and output gradients that are a linear function of them with noise.
TEST_CASE("copies: gradients of TT cores are within .0023 of the exact ones in bf16, .005 in int8, .08 in int4") {
  std::mt19937 random(5);
  const tt::Matrix x = normal_matrix(1024, 768, random), first = normal_matrix(12, 12, random),
                   second = normal_matrix(12, 8 * 30, random), third = normal_matrix(30 * 8, 30, random);
  tt::Matrix u = tt::multiply(x, normal_matrix(768, 30, random));  // U1 = dY B^T
  tt::add(u, normal_matrix(1024, 30, random));
  const auto gradients = [&](const tt::Matrix& inputs) {
    return core_gradients(first, second, third, tt::multiply_tn(inputs, u));
  };
  const std::vector<tt::Matrix> exact = gradients(x);
  // bf16 rounds by at most 2^-8 of a number: 2^-8 / sqrt(3) in the mean square, if errors are uniform.
  const double in_bf16 = largest_error(exact, gradients(restored(x, {16, false})));
  CHECK(in_bf16 > 0);
  CHECK(in_bf16 <= 0x1p-8 / std::sqrt(3.0));
  CHECK(largest_error(exact, gradients(restored(x, {8, false}))) <= 0.005);
  CHECK(largest_error(exact, gradients(restored(x, {4, false}))) <= 0.08);
}

TEST_CASE("copies: all consumers of a tensor share one copy, which the last one frees") {
  const int bits = GENERATE(16, 8, 4);
  const plan::Machine machine{&kernels::reference_backend(), DType::f32, nullptr};
  plan::Plan recorded;
  Walk walk(machine, recorded);
  const auto keeper = layers::make_quantised_keeper({.bits = bits});
  keeper->begin(nullptr);
  Slot slots[3];
  Tensor x = walk.make("x", {4, 64}), y = walk.make("y", {4, 64});
  keeper->keep(walk, x, Use::value, slots[0]);
  keeper->keep(walk, y, Use::value, slots[1]);
  keeper->keep(walk, x, Use::product, slots[2]);
  walk.drop(x);
  walk.drop(y);
  for (Slot& slot : slots) slot->release(walk);
  walk.end();  // throws if a tensor is still held
  std::size_t copies = 0, ranges = 0;
  for (const plan::PlannedTensor& tensor : recorded.tensors) {
    copies += tensor.name == "codes", ranges += tensor.name == "ranges";
    if (tensor.name == "codes") CHECK(tensor.bytes == static_cast<std::size_t>(4 * 64 * bits / 8));
  }
  CHECK(copies == 2);
  CHECK(ranges == (bits == 16 ? 0u : 2u));
}

// Equal matrices are kept for these layers, with stochastic rounding to int4.
static std::vector<std::vector<float>> rounded_for(const std::vector<std::string>& names) {
  std::vector<std::vector<float>> found(names.size());
  const auto keeper = layers::make_quantised_keeper({.bits = 4, .stochastic = true});
  const kernels::StepScalars scalars{.seed = 3, .step = 5};
  walk_twice(DType::f32, [&](Walk& walk) {
    keeper->begin(&scalars);
    std::vector<Slot> slots(names.size());
    std::vector<Tensor> tensors;
    for (std::size_t i = 0; i < names.size(); ++i) {
      Tensor x = tensors.emplace_back(walk.make("x", {8, 64}));
      for (int k = 0; walk.computes() && k < 8 * 64; ++k)
        static_cast<float*>(x.data)[k] = std::sin(0.37f * static_cast<float>(k));
      slots[i].layer = names[i];
      keeper->keep(walk, x, Use::value, slots[i]);
    }
    for (std::size_t i = 0; i < names.size(); ++i) {
      walk.drop(tensors[i]);
      Tensor back = slots[i]->value(walk);
      if (walk.computes()) {
        const auto* numbers = static_cast<const float*>(back.data);
        found[i].assign(numbers, numbers + 8 * 64);
      }
      walk.drop(back);
    }
  });
  return found;
}

TEST_CASE("copies: stochastic rounding is keyed by the layer, whatever other layers keep") {
  const auto alone = rounded_for({"query"}), after = rounded_for({"key", "up", "query"}),
             twice = rounded_for({"query", "query"});
  CHECK(after[2] == alone[0]);
  CHECK(twice[0] == alone[0]);
  CHECK(twice[1] != twice[0]);
  CHECK(after[0] != after[1]);
  CHECK(after[0] != after[2]);
}

TEST_CASE("copies: activations that are bf16 already are kept as they are") {
  const plan::Machine machine{&kernels::reference_backend(), DType::bf16, nullptr};
  plan::Plan recorded;
  Walk walk(machine, recorded);
  const auto keeper = layers::make_quantised_keeper({.bits = 16});
  keeper->begin(nullptr);
  Slot slot;
  Tensor x = walk.make("x", {4, 64});
  keeper->keep(walk, x, Use::value, slot);
  walk.drop(x);
  slot->release(walk);
  walk.end();
  CHECK(recorded.tensors.size() == 1);
}

namespace {

// Names of the tensors that three layers keep of one input under a policy, with the place of the layers.
std::vector<std::string> kept_by_three(layers::Keeper& keeper, layers::Place place, Use use) {
  const plan::Machine machine{&kernels::reference_backend(), DType::f32, nullptr};
  plan::Plan recorded;
  Walk walk(machine, recorded);
  keeper.begin(nullptr);
  Slot slots[3];
  Tensor x = walk.make("x", {4, 64});
  for (int i = 0; i < 3; ++i) {
    slots[i].layer = std::string("layer.").append(std::to_string(i)), slots[i].place = place;
    keeper.keep(walk, x, use, slots[i]);
  }
  walk.drop(x);
  for (Slot& slot : slots) slot->release(walk);
  walk.end();
  std::vector<std::string> names;
  for (const plan::PlannedTensor& tensor : recorded.tensors)
    if (tensor.name != "x" && tensor.name != "sketch") names.push_back(tensor.name);
  return names;
}

}  // namespace

TEST_CASE("compact: every layer has its projection, or one for all that read the same input") {
  using Names = std::vector<std::string>;
  const auto apart = layers::make_projected_keeper({}), shared = layers::make_projected_keeper({.shared = true}),
             whole = layers::make_projected_keeper({.rank = 64});
  CHECK(kept_by_three(*apart, layers::Place::block, Use::product) == Names(3, "projected"));
  CHECK(kept_by_three(*shared, layers::Place::block, Use::product) == Names(1, "projected"));
  CHECK(kept_by_three(*whole, layers::Place::block, Use::product).empty());
  CHECK(kept_by_three(*apart, layers::Place::block, Use::value).empty());
  CHECK(kept_by_three(*apart, layers::Place::attention_output, Use::product).empty());
  CHECK(kept_by_three(*apart, layers::Place::other, Use::product).empty());
}

TEST_CASE("compact: integer copies hold the values that are not projected, and keep ends both") {
  using Names = std::vector<std::string>;
  for (const auto& words : {std::vector<std::string>{"compact", "int8"}, {"int8", "compact"}}) {
    layers::RuledKeeper keeper(layers::parse_activations(words));
    CHECK(kept_by_three(keeper, layers::Place::block, Use::product) == Names(3, "projected"));
    CHECK(kept_by_three(keeper, layers::Place::block, Use::value) == Names{"codes", "ranges"});
  }
  layers::RuledKeeper first_exact(layers::parse_activations({"compact", "*.0=keep"}));
  CHECK(kept_by_three(first_exact, layers::Place::block, Use::product) == Names(2, "projected"));
}

TEST_CASE("activations: words become rules, and the last one that matches counts") {
  const Activations activations =
      layers::parse_activations({"cheap", "int8", "*.attention.*=int4", "*.2.*=bf16", "*.3.*=keep"});
  CHECK(activations.recompute == Recompute::cheap);
  REQUIRE(activations.rules.size() == 4);
  layers::RuledKeeper keeper(activations);
  const plan::Machine machine{&kernels::reference_backend(), DType::f32, nullptr};
  plan::Plan recorded;
  Walk walk(machine, recorded);
  keeper.begin(nullptr);
  const auto bytes_of_copy = [&](const std::string& layer) {
    Slot slot{.layer = layer};
    Tensor x = walk.make("x", {1, 64});
    const std::size_t before = recorded.tensors.size();
    keeper.keep(walk, x, Use::value, slot);
    walk.drop(x);
    slot->release(walk);
    return recorded.tensors.size() > before ? recorded.tensors[before].bytes : 0;
  };
  CHECK(bytes_of_copy("layer.0.output.dense") == 64);
  CHECK(bytes_of_copy("layer.0.attention.self") == 32);
  CHECK(bytes_of_copy("layer.2.attention.self") == 128);
  CHECK(bytes_of_copy("layer.3.attention.self") == 0);
  CHECK_NOTHROW(keeper.check_rules());
}

// Bytes per row of 64 numbers in each layer, of the input of an activation and of another value.
TEST_CASE("activations: act2bit and copies are chosen apart, keep is for both") {
  layers::RuledKeeper keeper(layers::parse_activations(
      {"act2bit", "int8", "*.1.*=keep", "*.2.*=int4", "*.3.*=keep", "*.3.*=act2bit-approxbp"}));
  const plan::Machine machine{&kernels::reference_backend(), DType::f32, nullptr};
  plan::Plan recorded;
  Walk walk(machine, recorded);
  keeper.begin(nullptr);
  const auto bytes = [&](const std::string& layer, Use use, kernels::Activation activation) {
    Slot slot{.layer = layer, .activation = activation};
    Tensor x = walk.make("x", {1, 64});
    const std::size_t before = recorded.tensors.size();
    keeper.keep(walk, x, use, slot);
    walk.drop(x);
    CHECK(slot->has_numbers() == (use == Use::value || recorded.tensors.size() != before + 1));
    slot->release(walk);
    return recorded.tensors.size() > before ? recorded.tensors[before].bytes : 0;
  };
  const auto slope = [&](const std::string& layer) { return bytes(layer, Use::slope, kernels::Activation::gelu); };
  const auto value = [&](const std::string& layer) { return bytes(layer, Use::value, kernels::Activation::none); };
  CHECK((slope("l.0.up") == 16 && value("l.0.up") == 64));
  CHECK((slope("l.1.up") == 0 && value("l.1.up") == 0));
  CHECK((slope("l.2.up") == 16 && value("l.2.up") == 32));
  CHECK((slope("l.3.up") == 16 && value("l.3.up") == 0));
  CHECK(bytes("l.0.pooler", Use::slope, kernels::Activation::tanh) == 64);  // no table
  CHECK_NOTHROW(keeper.check_rules());
}

TEST_CASE("activations: layers and blocks are computed again by name, and the last word that matches counts") {
  const Activations activations =
      layers::parse_activations({"*.layer.[0-2].*=block", "*.layer.1.*=keep", "*.mlp.*=cheap", "*.mlp.norm=share",
                                 "cheap", "*.3.*=keep", "block"});
  CHECK(activations.recompute == Recompute::block);  // the last without a name
  layers::RuledKeeper keeper(activations);
  const Recompute none = Recompute::none;
  CHECK(keeper.runs_again("m.layer.0", none));
  CHECK_FALSE(keeper.runs_again("m.layer.1", none));
  CHECK(keeper.runs_again("m.layer.2", none));
  CHECK_FALSE(keeper.runs_again("m.layer.3", Recompute::block));
  CHECK(keeper.runs_again("m.layer.4", Recompute::block));
  CHECK_FALSE(keeper.runs_again("m.layer.4", Recompute::cheap));
  CHECK(keeper.recompute("m.layer.4.attention", none) == none);
  CHECK(keeper.recompute("m.layer.4.attention", Recompute::cheap) == Recompute::cheap);
  CHECK(keeper.recompute("m.layer.4.mlp.up", none) == Recompute::cheap);
  CHECK(keeper.recompute("m.layer.4.mlp.norm", none) == Recompute::share);
  CHECK(keeper.recompute("m.layer.3.mlp.up", Recompute::cheap) == none);
  CHECK(keeper.recompute("m.layer.1.attention", Recompute::cheap) == none);
  CHECK_NOTHROW(keeper.check_rules());
}

TEST_CASE("activations: words that make no sense are refused with the words that do") {
  CHECK_THROWS_WITH(layers::parse_activations({"int7"}), Catch::Contains("there is no policy 'int7'") &&
                                                             Catch::Contains("did you mean int") &&
                                                             Catch::Contains("int4-stochastic"));
  layers::RuledKeeper blocks(layers::parse_activations({"*.dense=block"}));
  CHECK_FALSE(blocks.runs_again("layer.0", Recompute::none));
  CHECK_THROWS_WITH(blocks.check_rules(), Catch::Contains("*.dense=block: no block matches that can run again") &&
                                              Catch::Contains("layer.0"));
  layers::RuledKeeper without(layers::parse_activations({"x=block"}));
  CHECK_THROWS_WITH(without.check_rules(), Catch::Contains("the model has none"));
  layers::RuledKeeper within(layers::parse_activations({"block", "*.mlp=cheap"}));
  CHECK(within.runs_again("layer.0", Recompute::block));
  for (const char* word : {"layer.0=keep", "layer.0=cheap", "layer.0=share"}) {
    layers::RuledKeeper of_block(layers::parse_activations({"block", word}));
    CHECK(of_block.runs_again("layer.0", Recompute::block));
    CHECK_THROWS_WITH(of_block.check_rules(), Catch::Contains(word));
  }
  CHECK_THROWS_WITH(within.check_rules(),
                    Catch::Contains("*.mlp=cheap: no layer matches whose values can be computed again"));
  layers::RuledKeeper keeper(layers::parse_activations({"nothing*=int8"}));
  CHECK_THROWS_WITH(keeper.check_rules(), Catch::Contains("nothing*=int8: no layer of the model matches"));
  for (const char* word : {"act2bit", "*.mlp=act2bit-approxbp"}) {
    layers::RuledKeeper slopes(layers::parse_activations({word}));
    CHECK_THROWS_WITH(slopes.check_rules(), Catch::Contains(std::string("--activations ") + word) &&
                                                Catch::Contains("no dense layer with GELU or SiLU matches") &&
                                                Catch::Contains("use int8"));
  }
}

TEST_CASE("activations: recomputation of exact values does not change a result, all else does") {
  using Words = std::vector<std::string>;
  const auto relevant = layers::relevant_words;
  CHECK(relevant({}).empty());
  CHECK(relevant({"none"}).empty());  // in recipes of 0.1.0
  CHECK(relevant({"cheap"}) == relevant({"block", "keep"}));
  CHECK(relevant({"keep", "int8"}) == Words{"int8"});
  CHECK(relevant({"cheap", "share"}) == Words{"share"});  // restores inputs of norms within rounding
  CHECK(relevant({"share", "cheap"}).empty());
  CHECK(relevant({"*.1.*=block", "cheap", "*.mlp=cheap", "*.2.*=keep"}).empty());
  CHECK(relevant({"*.mlp=share"}) == Words{"*.mlp=share"});
  CHECK(relevant({"int8", "*.1.*=block"}) != relevant({"int8"}));
  CHECK(relevant({"int8"}) != relevant({"int4"}));
  for (const char* copy : {"int8", "act2bit", "compact", "velora"})
    CHECK(relevant({"cheap", copy}) != relevant({"keep", copy}));
}
