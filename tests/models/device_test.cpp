// Whole models on the emulator of the CUDA backend (kernels/cuda/emulator) and on a GPU. The host cannot access the
// device's memory, and steps are graphs.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>

#include "kernels/cuda/common/runtime.h"
#include "lib/layers/activations/policy.h"
#include "lib/train/optimizer.h"
#include "tests/kernels/harness/gpu.h"
#include "tests/models/small_models.h"
#include "tests/models/weights.h"

namespace {

using namespace comera;

struct Trained {
  std::vector<double> losses, weights, logits;
};

// The rounding of a gradient near zero must not decide a step.
std::shared_ptr<const engine::UpdateRule> update_rule() { return train::optimizer({.adamw = {.epsilon = 1e-3}}); }

void begin_step(engine::Engine& engine, std::int64_t step) {
  engine.begin_step(5, {.step = step, .rates = {1e-2, 1e-2, 1e-2}});
}

using Words = std::vector<std::string>;  // of --activations

// Trains with `parts` micro-batches of the same sequences per step.
Trained trained(const plan::Machine& machine, const models::ModelSpec& spec, int steps, int parts, const Words& words,
                const std::shared_ptr<const engine::UpdateRule>& rule = update_rule()) {
  layers::Activations activations = layers::parse_activations(words);
  activations.directions.group = 2;
  engine::EngineOptions options;
  options.recompute = activations.recompute;
  if (!activations.rules.empty()) options.keeper = std::make_shared<layers::RuledKeeper>(activations);
  options.update = rule;
  engine::Engine engine(machine, models::factory_of(spec, machine.dtype), options);
  engine.allocate();
  engine.weights().initialise(11);
  std::vector<data::Batch> batches;
  for (int part = 0; part < parts; ++part) batches.push_back(small_batch(spec));
  Trained result;
  for (int step = 0; step < steps; ++step) {
    begin_step(engine, step);
    engine.train(batches);
    REQUIRE(engine.state().scalars.finite == 1);
    result.losses.push_back(engine.state().loss[0]);
  }
  append_weights(engine, machine, result.weights);
  const engine::Scores scores = engine.evaluate(batches[0]);
  result.losses.push_back(scores.loss);
  result.logits.assign(scores.logits.begin(), scores.logits.end());
  return result;
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

// The emulator, and the GPU if there is one.
std::vector<plan::Machine> find_devices() {
  std::vector<plan::Machine> found{{&kernels::cuda::table(), DType::f32, nullptr}};
  const kernels::test::Gpu& gpu = kernels::test::gpu();
  if (gpu.backend) {
    found.push_back({gpu.backend, DType::f32, gpu.stream});
  } else if (std::getenv("COMERA_REQUIRE_GPU")) {
    FAIL_CHECK("no GPU: " << gpu.why);
  } else {
    WARN("SKIPPED: cuda gpu: " << gpu.why);
  }
  return found;
}

const std::vector<plan::Machine>& devices() {
  static const std::vector<plan::Machine> found = find_devices();
  return found;
}

// The error relative to the reference in double is at most four times that of the reference in float. Both round, in
// different orders.
void check_near(const models::ModelSpec& spec, int parts, const Words& words,
                const std::shared_ptr<const engine::UpdateRule>& rule = update_rule()) {
  const Trained exact = trained({&kernels::reference_backend(), DType::f64, nullptr}, spec, 4, parts, words, rule);
  const Trained single = trained({&kernels::reference_backend(), DType::f32, nullptr}, spec, 4, parts, words, rule);
  for (const plan::Machine& device : devices()) {
    const Trained on_device = trained(device, spec, 4, parts, words, rule);
    CHECK(distance(on_device.weights, exact.weights) <= 4 * distance(single.weights, exact.weights));
    CHECK(distance(on_device.losses, exact.losses) <= 4 * distance(single.losses, exact.losses) + 1e-6);
    CHECK(distance(on_device.logits, exact.logits) <= 4 * distance(single.logits, exact.logits) + 1e-6);
    const Trained again = trained(device, spec, 4, parts, words, rule);
    CHECK(on_device.weights == again.weights);
    CHECK(on_device.losses == again.losses);
  }
}

}  // namespace

TEST_CASE("a step on a device: encoders give the step of the reference") {
  check_near(small_encoder(true, models::Task::mlm, models::Form::tt), 1, {});
  check_near(small_encoder(false, models::Task::mlm, models::Form::dense), 1, {});
  check_near(small_encoder(false, models::Task::classify, models::Form::lowrank), 1, {});
  check_near(small_encoder(false, models::Task::regression, models::Form::tt), 1, {});
  check_near(tensorized_encoder(false, models::Task::classify), 1, {});
  for (const models::Task task : {models::Task::multilabel, models::Task::tag, models::Task::pairs})
    check_near(small_encoder(false, task, models::Form::dense), 1, {});
  check_near(small_mpnet(models::Task::classify, models::Form::tt), 1, {});
  check_near(small_mpnet(models::Task::mlm, models::Form::dense), 2, {"block"});
  check_near(small_modernbert(models::Task::classify, models::Form::tt), 1, {});
  check_near(small_modernbert(models::Task::mlm, models::Form::dense), 2, {"share"});
}

TEST_CASE("a step on a device: decoders give the step of the reference") {
  check_near(small_decoder(models::Form::tt, true), 1, {});
  check_near(small_decoder(models::Form::dense, false), 1, {});
}

TEST_CASE("a step on a device: models of clicks give the step of the reference") {
  check_near(small_dlrm(models::Form::tt), 1, {});
  check_near(small_dlrm(models::Form::dense), 2, {});
}

TEST_CASE("a step on a device: vision transformers give the step of the reference") {
  check_near(small_vit(models::Form::tt), 1, {});
  check_near(small_vit(models::Form::dense, 1), 2, {"block"});
}

TEST_CASE("a step on a device: weights that are updated in the backward") {
  train::OptimizerOptions lomo{.max_norm = 0, .adamw = {.epsilon = 1e-3}};
  lomo.methods = {.rules = train::parse_methods({"lomo"}), .least_elements = 1};
  check_near(small_encoder(false, models::Task::classify, models::Form::dense), 1, {}, train::optimizer(lomo));
}

TEST_CASE("a step on a device: micro-batches and recomputation give the step of the reference") {
  const models::EncoderSpec spec = small_encoder(false, models::Task::classify, models::Form::tt);
  check_near(spec, 3, {"cheap"});
  check_near(spec, 6, {"block"});  // more than the number of slots for pending batches
}

TEST_CASE("a step on a device: inputs as products with a vector, and norms from their outputs") {
  check_near(small_decoder(models::Form::dense, false), 1, {"velora"});
  check_near(small_encoder(false, models::Task::classify, models::Form::dense), 2, {"block", "velora"});
  check_near(small_decoder(models::Form::tt, true), 1, {"share"});
  check_near(small_encoder(true, models::Task::mlm, models::Form::dense), 2, {"share"});
}

// Another way to keep a value adds roundings of the activation dtype like those that keep has: the error of a run in
// bf16 is at most four times that of keep.
TEST_CASE("a step on a device: the same in bf16") {
  const models::ModelSpec specs[] = {small_decoder(models::Form::dense, false),
                                     small_encoder(false, models::Task::classify, models::Form::dense)};
  for (const models::ModelSpec& spec : specs)
    for (plan::Machine device : devices()) {
      const auto error = [&](const Words& words) {
        device.dtype = DType::f32;
        const Trained single = trained(device, spec, 3, 1, words);
        device.dtype = DType::bf16;
        return distance(trained(device, spec, 3, 1, words).weights, single.weights);
      };
      const double of_keep = error({"keep"});
      CHECK(of_keep > 0);
      for (const char* word : {"velora", "share"}) {
        CAPTURE(word);
        CHECK(error({word}) <= 4 * of_keep);
      }
    }
}

// Each call costs microseconds on a GPU, so the number of calls is part of a step's time.
TEST_CASE("a step on a device: the number of calls grows with the blocks, not with their cores") {
  const auto launches = [](DType dtype, models::Form form, int blocks, int cores) {
    models::EncoderSpec spec = small_encoder(false, models::Task::classify, form);
    spec.layers = blocks;
    models::FormRules rules;
    rules.form = form;
    rules.rank = rules.embedding_rank = 3;
    rules.order = cores / 2;
    rules.embedding_order = 3;
    models::apply_forms(spec, models::weight_sites(spec), rules);
    const plan::Machine machine{&kernels::cuda::table(), dtype, nullptr};
    engine::Engine engine(machine, models::factory_of(spec, dtype), {.update = update_rule()});
    const data::Batch batch = small_batch(spec);
    engine.plan_training(batch);
    engine.allocate();
    begin_step(engine, 0);
    engine.train({&batch, 1});
    CHECK(engine.launches() == 0);  // the first step of a shape runs call by call
    engine.train({&batch, 1});
    CHECK(engine.launches() > 0);
    return *engine.launches();
  };
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const std::int64_t one = launches(dtype, models::Form::tt, 1, 4), two = launches(dtype, models::Form::tt, 2, 4);
    // Twelve products in the forward and twice as many in the backward, sums over tiles, attention and norms. One call
    // per core (42 cores) would double the number.
    CHECK(two - one <= 42);
    CHECK(2 * one - two <= 61);  // tables, head, merging, optimizer
    CHECK(launches(dtype, models::Form::tt, 2, 6) - two <=
          2 * 2);  // merging has one more step per factor, in the forward and in the backward
    const std::int64_t dense = launches(dtype, models::Form::dense, 1, 4);
    CHECK(launches(dtype, models::Form::dense, 2, 4) - dense <= 48);
  }
}
