#include "lib/layers/activations/directions.h"

#include <catch2/catch.hpp>

#include "lib/core/error.h"
#include "lib/layers/activations/policy.h"
#include "lib/layers/training/direction.h"
#include "tests/layers/walks.h"

using namespace comera;
using layers::Parameter;
using layers::Place;
using layers::Slot;
using layers::Tensor;
using layers::Use;
using layers::Walk;

namespace {

Parameter weight(std::int64_t in, Place place = Place::block) {
  Parameter parameter;
  parameter.shape = {in, 6}, parameter.place = place;
  return parameter;
}

// Names of the tensors that layers keep of one input [4, 16], dense layers if they have a weight.
std::vector<std::string> kept(layers::Keeper& keeper, const std::vector<Parameter*>& weights, const std::string& layer,
                              Use use = Use::product) {
  const plan::Machine machine{&kernels::reference_backend(), DType::f32, nullptr};
  plan::Plan recorded;
  Walk walk(machine, recorded);
  keeper.begin(nullptr);
  std::vector<Slot> slots(weights.size());
  Tensor x = walk.make("x", {4, 16});
  for (std::size_t i = 0; i < slots.size(); ++i) {
    slots[i].layer = layer, slots[i].place = Place::block, slots[i].weight = weights[i];
    keeper.keep(walk, x, use, slots[i]);
  }
  walk.drop(x);
  for (Slot& slot : slots) slot->release(walk);
  walk.end();
  std::vector<std::string> names;
  for (const plan::PlannedTensor& tensor : recorded.tensors)
    if (tensor.name == "group products" || tensor.name == "codes") names.push_back(tensor.name);
  return names;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("velora: layers that read the same input keep one set of products") {
  const auto keeper = layers::make_direction_keeper({.group = 4}, "velora");
  Parameter q = weight(16), k = weight(16), v = weight(16);
  for (Parameter* one : {&q, &k, &v}) keeper->declare(*one, "layer");
  CHECK(kept(*keeper, {&q, &k, &v}, "layer") == Names{"group products"});
  CHECK_NOTHROW(keeper->check_rules());
}

TEST_CASE("velora: dense layers of blocks have a vector, but not the output layer of the attention") {
  const auto keeper = layers::make_direction_keeper({.group = 4}, "*=velora");
  Parameter block = weight(16), output = weight(16, Place::attention_output);
  keeper->declare(block, "block");
  keeper->declare(output, "output");
  REQUIRE(block.direction);
  CHECK(block.direction->size == 4);
  CHECK_FALSE(output.direction);
  CHECK_THROWS_WITH(keeper->check_rules(), Catch::Contains("--activations *=velora: it keeps no value") &&
                                               Catch::Contains("in place of cheap or share"));
}

TEST_CASE("velora: groups that do not divide the inputs are refused with the nearest that do") {
  const auto refused = [](std::int64_t group, std::int64_t in, const char* valid) {
    Parameter one = weight(in);
    const auto keeper = layers::make_direction_keeper({.group = group}, "velora");
    CHECK_THROWS_WITH(keeper->declare(one, "encoder.up"),
                      Catch::Contains("--velora-group " + std::to_string(group)) &&
                          Catch::Contains("encoder.up has " + std::to_string(in) + " inputs") &&
                          Catch::Contains(valid));
  };
  refused(7, 768, "use 6 or 8");
  refused(1000, 768, "use 768");
  refused(5, 14, "use 2 or 7");
  refused(5, 13, "use 13");
}

// Chains keep their inputs by the other rules.
TEST_CASE("velora: it is for dense layers, and other rules hold for chains and for other values") {
  Parameter dense = weight(16);
  for (const auto& words :
       {Names{"velora", "int8"}, {"int8", "velora"}, {"compact", "int8", "velora", "chain=keep", "chain=int8"}}) {
    layers::Activations activations = layers::parse_activations(words);
    activations.directions.group = 4;
    layers::RuledKeeper keeper(activations);
    keeper.declare(dense, "dense");
    CHECK(kept(keeper, {&dense}, "dense") == Names{"group products"});
    CHECK(kept(keeper, {&dense}, "dense", Use::value) == Names{"codes"});
    CHECK(kept(keeper, {nullptr}, "chain") == Names{"codes"});
  }
  layers::RuledKeeper alone(layers::parse_activations({"velora"}));
  kept(alone, {nullptr}, "chain");
  CHECK_THROWS_WITH(alone.check_rules(), Catch::Contains("--activations velora: no dense linear layer matches") &&
                                             Catch::Contains("use int4"));
}
