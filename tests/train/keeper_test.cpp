#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

#include "lib/core/half.h"
#include "lib/layers/activations/policy.h"
#include "lib/train/optimizer.h"
#include "lib/train/rank_adaptation.h"
#include "tests/engine/toy_model.h"

using namespace comera;
using engine::Engine;
using layers::Tensor;
using layers::Walk;

namespace {

// Keeps values rounded to bf16. It runs where tensors are in host memory.
class Bf16Copy final : public layers::Saved {
 public:
  Bf16Copy(Walk& walk, const Tensor& tensor) : kept_(walk.make("bf16 copy", tensor.shape, DType::bf16)) {
    if (!walk.computes()) return;
    const auto* from = static_cast<const float*>(tensor.data);
    auto* to = static_cast<std::uint16_t*>(kept_.data);
    for (std::int64_t i = 0; i < tensor.elements(); ++i) to[i] = float_to_bf16(from[i]);
  }

  Tensor read(Walk& walk) override {
    Tensor numbers = walk.make("numbers", kept_.shape, DType::f32);
    if (!walk.computes()) return numbers;
    const auto* from = static_cast<const std::uint16_t*>(kept_.data);
    auto* to = static_cast<float*>(numbers.data);
    for (std::int64_t i = 0; i < kept_.elements(); ++i) to[i] = bf16_to_float(from[i]);
    return numbers;
  }
  void release(Walk& walk) override { walk.drop(kept_); }

 private:
  Tensor kept_;
};

class Bf16Keeper final : public layers::Keeper {
 public:
  void keep(Walk& walk, const Tensor& tensor, layers::Use use, layers::Slot& slot) override {
    ++asked[static_cast<int>(use)];
    slot.saved = std::make_unique<Bf16Copy>(walk, tensor);
  }
  int asked[3] = {};
};

std::unique_ptr<Engine> trained(const std::shared_ptr<layers::Keeper>& keeper, int steps, layers::Recompute recompute,
                                const toy::Options& options = {}) {
  const plan::Machine machine{&kernels::reference_backend(), DType::f32, nullptr};
  auto engine = std::make_unique<Engine>(
      machine, toy::factory(DType::f32, options),
      engine::EngineOptions{.recompute = recompute, .update = train::optimizer(), .keeper = keeper});
  engine->allocate();
  engine->weights().initialise(11);
  const data::Batch batch = toy::batch(0, 16);
  for (int step = 0; step < steps; ++step) {
    if (step == steps / 2 && !options.dense)
      train::remove_all_but(*engine, train::above(train::read_diagonals(engine->weights()), 0.995));
    engine->begin_step(0, {.step = step, .rates = {1e-2, 1e-2, 1e-2, 1e-2}});
    engine->train({&batch, 1});
    REQUIRE(engine->state().scalars.finite == 1);
  }
  return engine;
}

}  // namespace

TEST_CASE("a keeper of bf16 copies trains a whole model, through a removal of ranks") {
  for (const layers::Recompute recompute : {layers::Recompute::none, layers::Recompute::cheap}) {
    const data::Batch dev = toy::batch(1000, 32);
    const auto rounding = std::make_shared<Bf16Keeper>();
    const auto exact = trained(nullptr, 30, recompute), rounded = trained(rounding, 30, recompute);
    const auto start = trained(nullptr, 0, recompute);
    // Every layer requests its values from the policy, dense products separately.
    CHECK(rounding->asked[static_cast<int>(layers::Use::value)] > 0);
    CHECK(rounding->asked[static_cast<int>(layers::Use::product)] > 0);
    CHECK(rounding->asked[static_cast<int>(layers::Use::slope)] == 0);  // a TT layer computes the input of GELU again
    CHECK(rounded->model().parameters().rank_entries() < start->model().parameters().rank_entries());
    const double before = start->evaluate(dev).loss, a = exact->evaluate(dev).loss, b = rounded->evaluate(dev).loss;
    CHECK(a < before);
    CHECK(b != a);
    // The gradients differ by at most some 2^-8 of themselves per product, so the fall of the loss nearly agrees.
    CHECK(std::fabs(b - a) < 0.05 * (before - a));
  }
}

// The slope of GELU differs by 13 % of its root mean square under N(0, 1) with the fitted table, by 36 % with that of
// Approx-BP. An error of 13 % on the gradients of one of three weights changes the fall of the loss by less than a
// quarter.
TEST_CASE("act2bit trains a whole model, with and without recomputation") {
  const toy::Options dense{.dense = true};
  const data::Batch dev = toy::batch(1000, 32);
  for (const layers::Recompute recompute : {layers::Recompute::none, layers::Recompute::cheap}) {
    const auto loss = [&](const char* policy, int steps) {
      const auto keeper = std::make_shared<layers::RuledKeeper>(layers::parse_activations({policy}));
      const auto engine = trained(keeper, steps, recompute, dense);
      if (steps > 0) CHECK_NOTHROW(keeper->check_rules());
      return engine->evaluate(dev).loss;
    };
    const double before = loss("act2bit", 0), exact = loss("keep", 30), fitted = loss("act2bit", 30),
                 coarse = loss("act2bit-approxbp", 30);
    CHECK(exact < before);
    CHECK(fitted != exact);
    CHECK(coarse != fitted);
    CHECK(std::fabs(fitted - exact) < 0.25 * (before - exact));
    CHECK(coarse < before);
  }
}
