// Whole models with activation dtype bf16, and with products in TF32, on the emulator of the CUDA backend and on a GPU
// if there is one; in bf16 on the CPU too, if it has bf16 kernels.
//
// Bounds. A number rounded to bf16 has a relative error of at most u = 2^-8 (8 significant bits, rounded to nearest).
// Each activation tensor that a walk makes, each left or right factor and each copy of a weight is one such rounding.
// Norms keep the activations of a transformer at one size, so each error propagates with a factor of about one.
// Independent errors add as squares: n of them give u sqrt(n) of a result's norm. A run may have four times this error,
// as in all tests here.
#include <catch2/catch.hpp>
#include <cmath>

#include "kernels/cuda/common/runtime.h"
#include "lib/engine/engine.h"
#include "lib/engine/generate.h"
#include "lib/layers/distillation.h"
#include "lib/train/optimizer.h"
#include "tests/kernels/harness/gpu.h"
#include "tests/models/small_models.h"

namespace {

using namespace comera;

constexpr double unit = 0x1p-8, tf32_unit = 0x1p-11;

struct Seen {
  double loss = 0;
  std::vector<double> logits;
  Gradients gradients;  // by parameter
};

plan::Machine on_double(DType dtype, bool tf32 = false) { return {&kernels::cuda::table(), dtype, nullptr, tf32}; }

// The CUDA emulator, and the GPU if there is one.
std::vector<plan::Machine> devices(DType dtype, bool tf32 = false) {
  std::vector<plan::Machine> found{on_double(dtype, tf32)};
  if (const kernels::test::Gpu& gpu = kernels::test::gpu(); gpu.backend)
    found.push_back({gpu.backend, dtype, gpu.stream, tf32});
  return found;
}

// The same in bf16, and the CPU if it has bf16 kernels.
std::vector<plan::Machine> bf16_machines() {
  std::vector<plan::Machine> found = devices(DType::bf16);
  for (const char* isa : {"v4bf16", "v4amx"}) {
    const char* error = nullptr;
    if (const kernels::Backend* cpu = kernels::cpu_backend(isa, &error)) {
      found.push_back({cpu, DType::bf16, nullptr});
    } else {
      WARN("SKIPPED: bf16 on the CPU, " << isa << ": " << error);
    }
  }
  return found;
}

void begin_step(engine::Engine& engine, std::int64_t step, double rate) {
  engine.begin_step(5, {.step = step, .rates = {rate, rate, rate}});
}

std::vector<double> numbers_of(const plan::Machine& machine, const layers::Tensor& tensor) {
  const engine::HostBytes host(machine, tensor);
  std::vector<double> numbers;
  for (std::int64_t i = 0; i < tensor.elements(); ++i) numbers.push_back(layers::load(host.tensor(), i));
  return numbers;
}

std::unique_ptr<engine::Engine> engine_of(const plan::Machine& machine, const models::ModelSpec& spec, double beta1,
                                          layers::Recompute recompute = {}) {
  engine::EngineOptions options;
  options.recompute = recompute;
  // The rounding of a gradient near zero must not decide a step.
  options.update = train::optimizer({.max_norm = 0, .adamw = {.beta1 = beta1, .epsilon = 1e-3}});
  const layers::ModelFactory plain = models::factory_of(spec, machine.dtype);
  const auto taught = [plain](const layers::RankTable& ranks) {
    auto model = plain(ranks);
    model->set_distillation({.active = true});
    return model;
  };
  auto engine = std::make_unique<engine::Engine>(machine, taught, options);
  engine->allocate();
  engine->weights().initialise(11);
  return engine;
}

// A batch with a teacher's outputs in the activation dtype: everything that a batch of the task may contain.
data::Batch batch_of(DType dtype, const models::ModelSpec& spec) {
  data::Batch batch = small_batch(spec);
  const models::Spec& common = models::common(spec);
  const auto add = [&](const char* name, const Shape& shape) {
    const TensorView view = batch.add(name, dtype, shape);
    for (std::int64_t i = 0; i < view.elements(); ++i)
      layers::store({view.data, dtype, shape, -1}, i, static_cast<double>(i % 7 - 3) / 4);
  };
  add(layers::teacher_hidden, {batch.sequences * batch.length, common.hidden});
  if (common.task == data::Task::embed) add(layers::teacher_embedding, {batch.sequences, common.hidden});
  if (common.task == data::Task::classify)
    add(layers::teacher_logits, {batch.sequences, static_cast<std::int64_t>(common.labels.size())});
  return batch;
}

// Runs one step with learning rate 0, whose first moments are the gradients, and an evaluation.
Seen seen(const plan::Machine& machine, const models::ModelSpec& spec, layers::Recompute recompute = {}) {
  const auto engine = engine_of(machine, spec, 0, recompute);
  const data::Batch batch = batch_of(machine.dtype, spec);
  begin_step(*engine, 0, 0);
  engine->train(std::span(&batch, 1));
  REQUIRE(engine->state().scalars.finite == 1);
  Seen result;
  for (const layers::Parameter& parameter : engine->model().parameters().all()) {
    CHECK(parameter.value.dtype == kernels::parameter_type(machine.dtype));
    result.gradients.push_back(numbers_of(machine, engine->weights().state(0, parameter.index)));
  }
  const engine::Scores scores = engine->evaluate(batch);
  result.loss = scores.loss / static_cast<double>(batch.counted);
  result.logits.assign(scores.logits.begin(), scores.logits.end());
  return result;
}

double norm(const std::vector<double>& x) {
  double sum = 0;
  for (const double value : x) sum += value * value;
  return std::sqrt(sum);
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

// Counts for a step in bf16: roundings to bf16 in the whole step and before its backward, products, and the forwards
// and backwards of TT layers.
struct Counts {
  double roundings = 0, forward = 0, products = 0, tt_forwards = 0, tt_backwards = 0;
};
Counts counts_of(const models::ModelSpec& spec) {
  const auto model = models::make_model(spec, DType::bf16);
  const auto sink = layers::make_accumulate_sink(model->parameters(), model->step_gradients());
  layers::StepState state;
  model->set_state(&state);
  plan::Plan plan;
  plan::Walk walk(on_double(DType::bf16), plan);
  model->set_distillation({.active = true});
  const data::Batch batch = batch_of(DType::bf16, spec);
  plan::Inputs inputs;
  model->declare_constants(inputs);
  model->declare(batch, inputs);
  model->forward(walk, batch, layers::SavePolicy(layers::Recompute::none));
  walk.backward_begins();
  const std::size_t begins = plan.tensors.size();
  model->backward(walk, *sink);
  walk.end();
  Counts counts;
  counts.forward = counts.roundings =
      static_cast<double>(model->factors().items().size() + model->cast_weights().copies().items().size());
  for (std::size_t i = 0; i < plan.tensors.size(); ++i) {
    if (plan.tensors[i].dtype != DType::bf16) continue;
    ++counts.roundings;
    if (i < begins) ++counts.forward;
  }
  for (const plan::OpCount& op : plan.ops) {
    const auto calls = static_cast<double>(op.calls);
    if (op.flops > 0) counts.products += calls;
    if (std::string_view(op.op) == "tt_linear_forward") counts.tt_forwards = calls;
    if (std::string_view(op.op) == "tt_linear_backward") counts.tt_backwards = calls;
  }
  return counts;
}

// `forward` and `share` are the allowed relative errors of forward results and of gradients. A parameter with a small
// gradient is compared with a twentieth of the norm of all gradients.
void check_near(const Seen& found, const Seen& exact, double forward, double share) {
  CHECK(distance(found.logits, exact.logits) <= forward * norm(exact.logits));
  CHECK(std::abs(found.loss - exact.loss) <= forward * std::max(1.0, exact.loss));
  double all = 0;
  for (const auto& gradient : exact.gradients) all = std::hypot(all, norm(gradient));
  for (std::size_t p = 0; p < exact.gradients.size(); ++p) {
    INFO("parameter " << p);
    CHECK(distance(found.gradients[p], exact.gradients[p]) <= share * std::max(norm(exact.gradients[p]), all / 20));
  }
}

void check_bf16(const models::ModelSpec& spec, bool recomputes = false) {
  const Seen exact = seen({&kernels::reference_backend(), DType::f64, nullptr}, spec);
  const Counts counts = counts_of(spec);
  const double forward = 4 * unit * std::sqrt(counts.forward), share = 4 * unit * std::sqrt(counts.roundings);
  REQUIRE(share < 0.2);
  for (const plan::Machine& device : bf16_machines()) {
    INFO(device.backend->name);
    const Seen found = seen(device, spec);
    check_near(found, exact, forward, share);
    if (!recomputes) continue;
    CHECK(seen(device, spec).gradients == found.gradients);
    CHECK(seen(device, spec, layers::Recompute::block).gradients == found.gradients);
  }
}

void check_tf32(const models::ModelSpec& spec) {
  const Seen exact = seen({&kernels::reference_backend(), DType::f64, nullptr}, spec);
  const double share = 4 * tf32_unit * std::sqrt(2 * counts_of(spec).products);  // both factors of a product
  for (const plan::Machine& device : devices(DType::f32, true)) {
    const Seen found = seen(device, spec);
    check_near(found, exact, share, share);
    CHECK(seen(on_double(DType::f32), spec).gradients != found.gradients);
    CHECK(seen(device, spec).gradients == found.gradients);
  }
}

// A factor in e4m3 has a relative error of at most u = 2^-4, one in e5m2 of 2^-3. Evenly distributed errors have the
// mean square u^2 / 3. A forward of TT layers has both factors of two products in e4m3. A backward has those of the
// product that it recomputes, and of two more products with one factor in e5m2. Four times this error would exceed the
// norm of the gradients, so here the sum itself is the bound.
void check_fp8(const models::ModelSpec& spec) {
  const Seen exact = seen({&kernels::reference_backend(), DType::f64, nullptr}, spec),
             bf16 = seen(on_double(DType::bf16), spec);
  const Counts counts = counts_of(spec);
  const double share =
      std::sqrt((counts.tt_forwards * 4 + counts.tt_backwards * 4) * 0x1p-8 / 3 + counts.tt_backwards * 2 * 0x1p-6 / 3);
  REQUIRE(share < 0.6);
  for (plan::Machine device : devices(DType::bf16)) {
    device.fp8 = true;
    const Seen found = seen(device, spec);
    double off = 0, all = 0;
    for (std::size_t p = 0; p < exact.gradients.size(); ++p)
      off = std::hypot(off, distance(found.gradients[p], exact.gradients[p])),
      all = std::hypot(all, norm(exact.gradients[p]));
    CHECK(off <= share * all);
    CHECK(std::abs(found.loss - exact.loss) <= share * exact.loss);
    CHECK(found.gradients != bf16.gradients);
  }
}

// Losses of training steps.
std::vector<double> losses(const plan::Machine& machine, const models::ModelSpec& spec, int steps,
                           std::vector<double>* weights = nullptr) {
  const auto engine = engine_of(machine, spec, 0.9);
  const data::Batch batch = small_batch(spec);
  std::vector<double> result;
  for (int step = 0; step < steps; ++step) {
    begin_step(*engine, step, 1e-2);
    engine->train(std::span(&batch, 1));
    REQUIRE(engine->state().scalars.finite == 1);
    result.push_back(engine->state().loss[0]);
  }
  if (weights)
    for (const layers::Parameter& parameter : engine->model().parameters().all())
      for (const double x : numbers_of(machine, parameter.value)) weights->push_back(x);
  return result;
}

}  // namespace

TEST_CASE("bf16 streams: encoders agree with double within the roundings of bf16") {
  check_bf16(small_encoder(false, models::Task::classify, models::Form::dense));
  check_bf16(small_encoder(false, models::Task::classify, models::Form::tt), true);
  check_bf16(small_encoder(true, models::Task::classify, models::Form::lowrank));
  check_bf16(small_encoder(true, models::Task::mlm, models::Form::tt));
  check_bf16(small_encoder(false, models::Task::mlm, models::Form::dense));
  check_bf16(tensorized_encoder(false, models::Task::classify));
  check_bf16(small_encoder(false, models::Task::regression, models::Form::dense));
  check_bf16(small_encoder(false, models::Task::embed, models::Form::tt));
}

TEST_CASE("bf16 streams: decoders agree with double within the roundings of bf16") {
  check_bf16(small_decoder(models::Form::dense, true));
  check_bf16(small_decoder(models::Form::tt, true), true);
  check_bf16(small_decoder(models::Form::lowrank, false));
}

TEST_CASE("TF32 products: models agree with double within the roundings of TF32") {
  check_tf32(small_encoder(false, models::Task::classify, models::Form::dense));
  check_tf32(small_encoder(true, models::Task::mlm, models::Form::tt));
  check_tf32(small_decoder(models::Form::tt, true));
}

TEST_CASE("fp8 products: gradients of TT layers agree with double within the roundings of fp8") {
  check_fp8(small_encoder(false, models::Task::classify, models::Form::tt, 16, 32));
}

// The change of the losses comes from steps with the error above. The loss itself changes by at most twice the largest
// error of the logits.
TEST_CASE("bf16 streams: losses of a run agree with double") {
  for (const models::Form form : {models::Form::dense, models::Form::tt}) {
    const models::ModelSpec spec = small_encoder(false, models::Task::classify, form);
    constexpr int steps = 8;
    const plan::Machine truth{&kernels::reference_backend(), DType::f64, nullptr};
    const std::vector<double> exact = losses(truth, spec, steps);
    const std::vector<double> logits = seen(truth, spec).logits;
    const double of_logits = 2 * norm(logits) / std::sqrt(static_cast<double>(logits.size()));
    const Counts counts = counts_of(spec);
    for (const plan::Machine& device : bf16_machines()) {
      std::vector<double> weights, again;
      const std::vector<double> found = losses(device, spec, steps, &weights);
      double gone = 0;
      for (std::size_t step = 0; step < steps; ++step) {
        gone += step > 0 ? std::abs(exact[step] - exact[step - 1]) : 0;
        CHECK(std::abs(found[step] - exact[step]) <=
              4 * unit * (std::sqrt(counts.roundings) * gone + std::sqrt(counts.forward) * of_logits));
      }
      CHECK(losses(device, spec, steps, &again) == found);
      CHECK(again == weights);
    }
  }
}

TEST_CASE("bf16 streams: the memory table has two bytes per number, and the copies of dense weights") {
  for (const models::Form form : {models::Form::dense, models::Form::tt}) {
    const models::ModelSpec spec = small_encoder(false, models::Task::classify, form);
    const auto table_of = [&](DType dtype) {
      engine::Engine engine(on_double(dtype), models::factory_of(spec, dtype), {.update = train::optimizer()});
      engine.plan_training(small_batch(spec));
      return engine.memory_table();
    };
    const auto row = [](const engine::MemoryTable& table, const std::string& group) {
      std::size_t bytes = 0;
      for (const engine::MemoryTable::Row& one : table.rows) bytes += one.group == group ? one.bytes : 0;
      return bytes;
    };
    const engine::MemoryTable wide = table_of(DType::f32), narrow = table_of(DType::bf16);
    CHECK(row(narrow, "moments") == row(wide, "moments"));
    CHECK(row(narrow, "weights") == row(wide, "weights"));
    CHECK(row(wide, "copies of weights") == 0);
    CHECK(row(narrow, "copies of weights") > 0);
    CHECK(narrow.of(plan::Category::saved) < 3 * wide.of(plan::Category::saved) / 4);
    const auto model = models::make_model(spec, DType::bf16);
    std::size_t counted = 0;
    for (const auto& item : model->cast_weights().copies().items())
      counted += plan::aligned(2 * static_cast<std::size_t>(item.shape.elements()));
    CHECK(row(narrow, "copies of weights") == counted);
  }
}

TEST_CASE("bf16 streams: sentence embeddings agree with double within the roundings of bf16") {
  const models::ModelSpec sentence = small_encoder(false, models::Task::embed, models::Form::tt);
  const auto embedding = [&](const plan::Machine& machine) {
    const auto engine = engine_of(machine, sentence, 0.9);  // owns the memory of the scores
    const engine::Scores scores = engine->evaluate(small_batch(sentence));
    return std::vector<double>(scores.embedding.begin(), scores.embedding.end());
  };
  const std::vector<double> exact = embedding({&kernels::reference_backend(), DType::f64, nullptr});
  const double share = 4 * unit * std::sqrt(counts_of(sentence).forward);
  for (const plan::Machine& machine : bf16_machines())
    CHECK(distance(embedding(machine), exact) <= share * norm(exact));
}

TEST_CASE("bf16 streams: a cache of keys and values gives the logits of a full pass") {
  models::DecoderSpec spec = small_decoder(models::Form::tt, true);
  spec.positions = 20;
  const auto engine = engine_of(on_double(DType::bf16), spec, 0.9);
  const data::Ids text{1, 5, 9, 22, 0, 7, 7, 13};
  engine->open_cache(1, 20);
  std::int64_t read = 0;
  for (const std::int64_t next : {5, 6, 8}) {
    const std::span<const std::int32_t> known(text.data(), static_cast<std::size_t>(next));
    data::Batch batch, whole;
    engine::fill_generation_batch(batch, known, read, 20);
    const engine::Scores cached = engine->decode(batch);
    const std::vector<double> with(cached.logits.begin(), cached.logits.end());
    engine::fill_generation_batch(whole, known, 0, 0);
    const engine::Scores again = engine->evaluate(whole);
    const std::vector<double> without(again.logits.begin(), again.logits.end());
    CHECK(distance(with, without) <=
          4 * unit * std::sqrt(counts_of(small_decoder(models::Form::tt, true)).forward) * norm(without));
    read = next;
  }
}
