#include "lib/layers/training/saved.h"

#include <catch2/catch.hpp>

#include "kernels/linear.h"
#include "lib/layers/training/subspace.h"
#include "tests/layers/walks.h"

using namespace comera;
using layers::Recompute;
using layers::SavePolicy;
using layers::Slot;
using layers::Tensor;
using layers::Use;
using layers::Walk;

namespace {

void fill(const Walk& walk, const Tensor& tensor, double first) {
  for (std::int64_t i = 0; walk.computes() && i < tensor.elements(); ++i)
    static_cast<double*>(tensor.data)[i] = first + static_cast<double>(i);
}

// Makes the same tensor at every request.
struct Counting final : layers::Producer {
  Tensor rebuild(Walk& walk) override {
    ++calls;
    Tensor made = walk.make("rebuilt", {2, 2});
    fill(walk, made, 10);
    return made;
  }
  int calls = 0;
};

}  // namespace

TEST_CASE("a kept value outlives its maker's reference and is read several times") {
  walk_twice(DType::f64, [](Walk& walk) {
    const SavePolicy policy(Recompute::none);
    Slot slot;
    Tensor x = walk.make("x", {2, 2});
    fill(walk, x, 1);
    policy.take(walk, x, Use::value, slot);
    CHECK(x.empty());
    for (int read = 0; read < 2; ++read) {
      Tensor numbers = slot->read(walk);
      if (walk.computes()) CHECK(static_cast<double*>(numbers.data)[3] == 4);
      walk.drop(numbers);
    }
    Tensor last = slot->value(walk);
    walk.drop(last);
  });
}

TEST_CASE("a product is X^T G of the kept value") {
  walk_twice(DType::f64, [](Walk& walk) {
    Slot slot;
    Tensor x = walk.make("x", {3, 2}), g = walk.make("g", {3, 1}), result = walk.make("result", {2, 1});
    fill(walk, x, 1);  // 1 2 | 3 4 | 5 6
    fill(walk, g, 1);  // 1 2 3
    for (int i = 0; walk.computes() && i < 2; ++i) static_cast<double*>(result.data)[i] = 100;
    SavePolicy(Recompute::none).take(walk, x, Use::product, slot);
    slot->product(walk, g, 1, result, 1, 2, 1);
    slot->release(walk);
    if (walk.computes()) {
      CHECK(static_cast<double*>(result.data)[0] == 100 + 1 + 6 + 15);
      CHECK(static_cast<double*>(result.data)[1] == 100 + 2 + 8 + 18);
    }
    walk.drop(g);
    walk.drop(result);
  });
}

TEST_CASE("a value with a producer is computed again where the policy recomputes, inside a block it is kept") {
  for (const Recompute recompute : {Recompute::none, Recompute::cheap, Recompute::share, Recompute::block}) {
    Counting producer;
    walk_twice(DType::f64, [&](Walk& walk) {
      const SavePolicy policy(recompute);
      Slot outside, inside;
      Tensor x = walk.make("x", {2, 2});
      fill(walk, x, 10);
      policy.save(walk, {x, &producer}, Use::value, outside);
      policy.inside_block(policy.runs_again("block")).save(walk, {x, &producer}, Use::value, inside);
      walk.drop(x);
      for (Slot* slot : {&outside, &inside}) {
        Tensor numbers = (*slot)->value(walk);
        if (walk.computes()) CHECK(static_cast<double*>(numbers.data)[1] == 11);
        walk.drop(numbers);
      }
    });
    // Two walks: none keeps both, cheap and share rebuild both, block rebuilds the one outside.
    CHECK(producer.calls == (recompute == Recompute::none ? 0 : recompute == Recompute::block ? 2 : 4));
  }
}

// A keeper that remembers for what a value was offered.
namespace {
struct Offered final : layers::Keeper {
  void keep(Walk& walk, const Tensor& tensor, Use as, Slot& slot) override {
    use = as;
    layers::exact_keeper().keep(walk, tensor, as, slot);
  }
  Use use = Use::slope;
};
}  // namespace

TEST_CASE(
    "a value that its maker keeps is kept as it is by its readers too, unless a gradient in a subspace needs more") {
  layers::Parameter plain, projected;
  projected.subspace = std::make_shared<layers::Subspace>();
  for (const layers::Parameter* weight : {&plain, &projected})
    for (const bool kept : {false, true}) {
      Offered keeper;
      walk_twice(DType::f64, [&](Walk& walk) {
        Slot slot;
        slot.weight = weight;
        Tensor x = walk.make("x", {2, 2});
        SavePolicy(Recompute::share, true, keeper).save(walk, {x, nullptr, kept}, Use::product, slot);
        walk.drop(x);
        slot->release(walk);
      });
      CHECK(keeper.use == (kept && weight == &plain ? Use::value : Use::product));
    }
}

TEST_CASE("evaluation and a forward that runs again keep nothing") {
  for (const SavePolicy& policy : {SavePolicy(Recompute::none, false), SavePolicy(Recompute::block).discarding()}) {
    CHECK_FALSE(policy.saves());
    walk_twice(DType::f64, [&](Walk& walk) {
      Slot slot;
      Tensor x = walk.make("x", {2, 2});
      policy.save(walk, {x, nullptr}, Use::value, slot);
      policy.take(walk, x, Use::value, slot);
      CHECK(slot.saved == nullptr);
    });
  }
  CHECK(SavePolicy(Recompute::block).discarding().training());
}

TEST_CASE("a step at a known shape reuses the object in the slot") {
  Slot slot;
  const layers::Saved* first = nullptr;
  walk_twice(DType::f64, [&](Walk& walk) {
    Tensor x = walk.make("x", {2, 2});
    SavePolicy(Recompute::none).take(walk, x, Use::value, slot);
    if (first) CHECK(slot.saved.get() == first);
    first = slot.saved.get();
    slot->release(walk);
  });
}
