#include "lib/engine/engine.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

#include "lib/core/error.h"
#include "lib/layers/training/direction.h"

namespace comera::engine {

Engine::Engine(const Machine& machine, layers::ModelFactory factory, const EngineOptions& options,
               const layers::RankTable& ranks)
    : machine_(machine), factory_(std::move(factory)), options_(options), device_state_(&state_) {
  if (!machine.backend->memory.host_accessible) {
    device_state_ = static_cast<layers::StepState*>(plan::unbound);
    device_steps_ = std::make_unique<DeviceSteps>(machine);
  }
  COMERA_CHECK(!options.training() || options.update->scalar_bytes() <= sizeof state_.update);
  adopt(factory_(ranks));
}

Engine::~Engine() = default;

void Engine::adopt(std::unique_ptr<Model> model) {
  model->set_state(device_state_);
  if (options_.training() && options_.keeper) declare_weights(*model);
  if (options_.training()) options_.update->declare(model->parameters());
  std::vector<ParameterState> states = states_of(*model);
  weights_ = std::make_unique<Weights>(machine_, std::move(model), std::move(states));
  plans_.clear();
  if (device_steps_) device_steps_->forget();
  region_bytes_ = 0;
  prepared_ = false;
  if (options_.training()) {
    sink_ = options_.sink(weights_->model().parameters(), weights_->model().step_gradients());
    update_ = options_.update->make(*weights_, *sink_);
    sink_->apply_by([this](layers::Walk& walk, const Parameter& parameter, const Tensor& gradient) {
      update_->apply(walk, device_state_, parameter, gradient);
    });
    record(key(Phase::begin), nullptr, [&](layers::Walk& walk) { begin_walk(walk); });
  }
  record(key(Phase::prepare), nullptr, [&](layers::Walk& walk) { prepare_walk(walk); });
}

void Engine::declare_weights(Model& model) {
  constexpr std::string_view suffix = ".weight";
  for (Parameter& parameter : model.parameters().all())
    if (parameter.place != layers::Place::other && parameter.name.ends_with(suffix))
      options_.keeper->declare(parameter, parameter.name.substr(0, parameter.name.size() - suffix.size()));
}

// Those of the update, and the vectors that the forward sets in the first step.
std::vector<ParameterState> Engine::states_of(const Model& model) const {
  if (!options_.training()) return {};
  std::vector<ParameterState> states = options_.update->state();
  const auto& parameters = model.parameters().all();
  if (std::any_of(parameters.begin(), parameters.end(), [](const Parameter& one) { return one.direction != nullptr; }))
    states.push_back({.name = "direction",
                      .shape = [](const Parameter& one) { return Shape{one.direction ? one.direction->size : 0}; },
                      .bound =
                          [](Parameter& one, const Tensor& vector) {
                            if (one.direction) one.direction->vector = vector;
                          }});
  return states;
}

void Engine::declare(const Batch* batch) {
  inputs_.clear();
  model().declare_constants(inputs_);
  if (batch) model().declare(*batch, inputs_);
}

template <class Body>
void Engine::record(const Key& key, const Batch* batch, Body&& body) {
  if (plans_.contains(key)) return;
  declare(batch);
  plan::Plan plan;
  const auto walk_it = [&] {
    layers::Walk walk(machine_, plan);
    body(walk);
    walk.end();
  };
  device_steps_ ? device_steps_->count_modules(walk_it) : walk_it();  // measuring paths calls kernels
  plan.input_bytes = inputs_.bytes();
  region_bytes_ = std::max(region_bytes_, plan.bytes);
  plans_.emplace(key, std::move(plan));
}

template <class Body>
void Engine::replay(const Key& key, Body&& body) {
  layers::Walk walk(machine_, plans_.at(key), step_memory_ + slabs_bytes());
  walk.set_profile(profile_);
  body(walk);
  walk.end();
}

template <class Replays>
void Engine::run(const DeviceSteps::Key& key, const Batch* batch, Way way, const Replays& replays) {
  declare(batch);
  if (!device_steps_) {
    inputs_.bind_to_host();
    return replays();
  }
  if (way == Way::graph && !profile_ && !options_.call_by_call) {
    device_steps_->launch(key, inputs_, std::ref(replays));
  } else {
    device_steps_->run(key, inputs_, std::ref(replays));
  }
}

std::size_t Engine::input_bytes() const {
  std::size_t largest = 0;
  for (const auto& [key, plan] : plans_) largest = std::max(largest, plan.input_bytes);
  return largest;
}

void Engine::study(const Batch& batch) {
  if (!options_.keeper || !options_.keeper->studies()) return;
  declare(&batch);
  plan::Plan plan;
  const auto walk_it = [&] {
    layers::Walk walk(machine_, plan);
    train_walk(walk, batch);
    walk.end();
  };
  device_steps_ ? device_steps_->count_modules(walk_it) : walk_it();
  options_.keeper->studied(plan.flops_before);
}

void Engine::plan_training(const Batch& batch) {
  study(batch);
  record(key(Phase::train, batch), &batch, [&](layers::Walk& walk) { train_walk(walk, batch); });
  record(key(Phase::finish), nullptr, [&](layers::Walk& walk) { finish_walk(walk); });
  if (options_.keeper) options_.keeper->check_rules();
}

void Engine::plan_evaluation(const Batch& batch) {
  record(key(Phase::evaluate, batch), &batch, [&](layers::Walk& walk) { evaluate_walk(walk, batch); });
}

std::size_t Engine::slabs_bytes() const {
  Model& model = weights_->model();
  return model.factors().bytes() + model.cast_weights().copies().bytes() +
         (options_.training() ? model.step_gradients().bytes() : 0);
}

// Frees the old arena before it allocates the new one. Only the merged factors in it outlive a step, and they are
// merged again.
void Engine::allocate() {
  if (options_.keeper && options_.keeper->allocate(*machine_.backend) && device_steps_) device_steps_->forget();
  if (device_steps_) return allocate_block();
  if (!weights_->allocated()) weights_->allocate();
  if (step_arena_.bytes() >= step_bytes() && step_arena_.bytes() > 0) return;
  step_arena_ = plan::Arena();
  step_arena_ = plan::Arena(*machine_.backend, std::max<std::size_t>(step_bytes(), plan::alignment), "a step");
  bind_step(step_arena_.data());
}

DeviceBlock::Layout Engine::block_layout() const {
  return {weights_->bytes(), sizeof state_, DeviceSteps::input_places(input_bytes()), step_bytes()};
}

void Engine::free_step() {
  step_arena_ = plan::Arena();
  prepared_ = false;
}

void Engine::allocate_block() {
  const DeviceBlock::Layout wanted = block_layout();
  if (weights_->allocated() && block_.holds(wanted)) return;
  const auto weights = [&] {
    return Tensor{block_.weights(), DType::u8, {static_cast<std::int64_t>(wanted.weights)}, -1};
  };
  std::optional<HostBytes> kept;
  if (weights_->allocated()) kept.emplace(machine_, weights());
  device_steps_->forget();
  block_.take(*machine_.backend, wanted);
  weights_->bind(block_.weights());
  if (kept) write(machine_, weights(), kept->bytes());
  device_state_ = reinterpret_cast<layers::StepState*>(block_.state());
  model().set_state(device_state_);
  device_steps_->set_inputs(block_.inputs(), input_bytes());
  bind_step(block_.step());
}

void Engine::bind_step(void* base) {
  step_memory_ = static_cast<std::byte*>(base);
  std::byte* next = step_memory_;
  model().factors().bind(next);
  model().cast_weights().copies().bind(next += model().factors().bytes());
  if (options_.training()) model().step_gradients().bind(next + model().cast_weights().copies().bytes());
  prepared_ = false;
}

void Engine::prepare() {
  if (prepared_) return;
  replay(key(Phase::prepare), [&](layers::Walk& walk) { prepare_walk(walk); });
  prepared_ = true;
}

void Engine::begin_walk(layers::Walk& walk) { sink_->begin(walk); }
void Engine::prepare_walk(layers::Walk& walk) { model().prepare(walk); }

void Engine::train_walk(layers::Walk& walk, const Batch& batch) {
  layers::Keeper& keeper = options_.keeper ? *options_.keeper : layers::exact_keeper();
  keeper.begin(&device_state_->scalars);
  poll_in(walk);
  model().forward(walk, batch, layers::SavePolicy(options_.recompute, true, keeper));
  walk.backward_begins();
  if (updates_in_backward()) walk.set_poll(nullptr);
  model().backward(walk, *sink_);
}

void Engine::poll_in(layers::Walk& walk) const {
  if (options_.poll && !device_steps_) walk.set_poll(&options_.poll);
}

bool Engine::updates_in_backward() const {
  const auto& parameters = model().parameters().all();
  return std::any_of(parameters.begin(), parameters.end(), [](const Parameter& one) { return one.at_once; });
}

void Engine::finish_walk(layers::Walk& walk) {
  model().finish(walk, *sink_);
  walk.update_begins();
  for (Parameter& parameter : model().parameters().all()) sink_->complete(walk, parameter);
  update_->run(walk, device_state_);
  sink_->release(walk);
}

void Engine::evaluate_walk(layers::Walk& walk, const Batch& batch) {
  poll_in(walk);
  layers::Outputs outputs = model().forward(walk, batch, layers::SavePolicy(layers::Recompute::none, false));
  if (!walk.recording()) {
    fetch(outputs);
  }
  outputs.drop(walk);
}

void Engine::fetch(const layers::Outputs& outputs) {
  best_.resize(outputs.best.empty() ? 0 : static_cast<std::size_t>(outputs.best.elements()));
  if (!best_.empty()) {
    const HostBytes best(machine_, outputs.best);
    std::memcpy(best_.data(), best.bytes().data(), best.bytes().size());
  }
  fetch(outputs.logits, logits_);
  fetch(outputs.embedding, embedding_);
  fetch(options_.fetch_hidden ? outputs.hidden : Tensor{}, hidden_);
}

void Engine::fetch(const Tensor& tensor, std::vector<double>& numbers) {
  numbers.resize(tensor.empty() ? 0 : static_cast<std::size_t>(tensor.elements()));
  if (numbers.empty()) return;
  const HostBytes host(machine_, tensor);
  layers::load(host.tensor(), 0, numbers);
}

void Engine::begin_step(std::uint64_t seed, const UpdateStep& step) {
  state_.scalars.seed = seed;
  state_.scalars.step = static_cast<std::uint64_t>(step.step);
  options_.update->write_scalars(step, std::span(state_.update).first(options_.update->scalar_bytes()));
}

void Engine::send_state() {
  if (device_state_ == &state_) return;
  write(machine_, {device_state_, DType::u8, {sizeof state_}, -1}, std::as_bytes(std::span(&state_, 1)));
}

void Engine::receive_state() {
  if (device_state_ == &state_) return;
  const HostBytes host(machine_, {device_state_, DType::u8, {sizeof state_}, -1});
  std::memcpy(&state_, host.bytes().data(), sizeof state_);
  device_steps_->arrived();
}

// A graph must not depend on earlier work, so on a device the left and right factors are merged in every step.
void Engine::begin_step() {
  replay(key(Phase::begin), [&](layers::Walk& walk) { begin_walk(walk); });
  if (device_steps_) prepared_ = false;
  prepare();
}

void Engine::micro_step(const Batch& part) {
  replay(key(Phase::train, part), [&](layers::Walk& walk) { train_walk(walk, part); });
}

void Engine::finish_step() {
  replay(key(Phase::finish), [&](layers::Walk& walk) { finish_walk(walk); });
}

// On a device a step without accumulation is one graph. With accumulation its beginning, each micro-batch and its end
// are separate graphs.
void Engine::run_step(std::span<const Batch> parts) {
  const auto named = [&](const Key& key, bool whole) { return DeviceSteps::Key(&plans_.at(key), whole); };
  const auto used = [](const Batch& part) { return part.sequences > 0; };
  if (std::count_if(parts.begin(), parts.end(), used) == 1) {
    const Batch& only = *std::find_if(parts.begin(), parts.end(), used);
    return run(named(key(Phase::train, only), true), &only, Way::graph,
               [&] { begin_step(), micro_step(only), finish_step(); });
  }
  run(named(key(Phase::begin), false), nullptr, Way::graph, [&] { begin_step(); });
  for (const Batch& part : parts)
    if (used(part)) run(named(key(Phase::train, part), false), &part, Way::graph, [&] { micro_step(part); });
  run(named(key(Phase::finish), false), nullptr, Way::graph, [&] { finish_step(); });
}

// Only for steps of one micro-batch, whose inputs are known in advance.
void Engine::send_ahead(std::span<const Batch> parts) {
  if (!device_steps_ || profile_ || parts.size() != 1 || !plans_.contains(key(Phase::train, parts[0]))) return;
  declare(&parts[0]);
  device_steps_->send_ahead(inputs_);
}

void Engine::train(std::span<const Batch> parts) {
  start(parts);
  finish();
}

void Engine::finish() { receive_state(); }

void Engine::start(std::span<const Batch> parts) {
  std::int64_t counted = 0, sequences = 0;
  for (const Batch& part : parts) {
    if (part.sequences == 0) continue;
    plan_training(part);
    counted += part.counted;
    sequences += part.sequences;
  }
  allocate();
  state_.scalars.loss_scale = 1.0 / static_cast<double>(std::max<std::int64_t>(counted, 1));
  state_.scalars.sequence_scale = 1.0 / static_cast<double>(std::max<std::int64_t>(sequences, 1));
  state_.scalars.gradient_scale = state_.scalars.finite = 1;
  state_.loss[0] = state_.loss[1] = state_.correct = state_.applied_square_sum = 0;
  send_state();
  run_step(parts);
  prepared_ = false;
}

Scores Engine::evaluate(const Batch& batch) {
  plan_evaluation(batch);
  return run_evaluation(key(Phase::evaluate, batch), batch);
}

Scores Engine::run_evaluation(const Key& key, const Batch& batch) {
  allocate();
  state_.scalars.loss_scale = state_.scalars.sequence_scale = 1;
  state_.loss[0] = state_.loss[1] = state_.correct = 0;
  send_state();
  run({&plans_.at(key), false}, &batch, Way::calls, [&] {
    prepare();
    replay(key, [&](layers::Walk& walk) { evaluate_walk(walk, batch); });
  });
  receive_state();
  return {state_.loss[0], state_.correct, best_, logits_, embedding_, hidden_};
}

void Engine::open_cache(std::int64_t sequences, std::int64_t capacity) {
  std::erase_if(plans_, [](const auto& item) {
    return std::get<Phase>(item.first) == Phase::clear || std::get<Phase>(item.first) == Phase::decode;
  });
  cache_ = model().make_cache(sequences, capacity);
  if (!cache_) fail_input("[model] only decoders generate text; this model is none");
  cache_arena_ = plan::Arena();
  cache_arena_ = plan::Arena(*machine_.backend, cache_->slab().bytes(), "the cache of keys and values");
  cache_->slab().bind(cache_arena_.data());
  model().set_cache(cache_.get());
  const auto clear = [&](layers::Walk& walk) { model().clear_cache(walk); };
  record(key(Phase::clear), nullptr, clear);
  allocate();
  run({&plans_.at(key(Phase::clear)), false}, nullptr, Way::calls, [&] { replay(key(Phase::clear), clear); });
  model().set_cache(nullptr);
}

Scores Engine::decode(const Batch& batch) {
  COMERA_CHECK(cache_ != nullptr);
  model().set_cache(cache_.get());
  record(key(Phase::decode, batch), &batch, [&](layers::Walk& walk) { evaluate_walk(walk, batch); });
  const Scores scores = run_evaluation(key(Phase::decode, batch), batch);
  model().set_cache(nullptr);
  return scores;
}

void Engine::replace(const layers::RankTable& ranks, const Fill& fill) {
  step_arena_ = plan::Arena();
  const double threshold = model().threshold();
  const std::unique_ptr<Weights> old = std::move(weights_);
  if (device_steps_) old->move_to_host();
  adopt(factory_(ranks));
  model().set_threshold(threshold);
  device_steps_ ? allocate_block() : weights_->allocate();
  fill(*old, *weights_);
}

std::vector<plan::OpCount> Engine::op_counts() const {
  std::vector<plan::OpCount> sums;
  for (const auto& [key, plan] : plans_) {
    if (std::get<Phase>(key) == Phase::evaluate) continue;
    for (const plan::OpCount& count : plan.ops) {
      const auto same = [&](const plan::OpCount& sum) { return std::string_view(sum.op) == count.op; };
      const auto found = std::find_if(sums.begin(), sums.end(), same);
      if (found == sums.end()) {
        sums.push_back(count);
      } else {
        found->calls += count.calls;
        found->flops += count.flops;
      }
    }
  }
  return sums;
}

const plan::Plan* Engine::largest_plan() const {
  const plan::Plan* largest = nullptr;
  for (const auto& [key, plan] : plans_)
    if (!largest || plan.bytes > largest->bytes) largest = &plan;
  return largest;
}

void Engine::add_flops(MemoryTable& table, std::int64_t accumulate) const {
  const plan::Plan* work = nullptr;
  for (const auto& [key, plan] : plans_) {
    const Phase phase = std::get<Phase>(key);
    if (phase != Phase::train && phase != Phase::evaluate && phase != Phase::decode) {
      table.flops += plan.flops();
      if (phase == Phase::prepare) table.forward_flops += plan.flops();
      if (phase == Phase::finish) table.backward_flops += plan.flops_before;
    } else if ((phase == Phase::train) == options_.training() && (!work || plan.flops() > work->flops())) {
      work = &plan;
    }
  }
  if (!work) return;
  const double forward = options_.training() ? work->flops_before : work->flops();
  const auto times = static_cast<double>(accumulate);
  table.flops += times * work->flops();
  table.forward_flops += times * forward;
  table.backward_flops += times * (work->flops() - forward);
}

std::vector<plan::PlannedTensor> Engine::tensors_at_peak() const {
  std::vector<plan::PlannedTensor> tensors;
  if (const plan::Plan* largest = largest_plan()) {
    const int tick = largest->peak_tick();
    for (const plan::PlannedTensor& tensor : largest->tensors)
      if (tensor.first <= tick && tick <= tensor.last) tensors.push_back(tensor);
  }
  Model& model = weights_->model();
  std::vector<const plan::Slab*> slabs{&model.parameters().slab(), &weights_->state_slab(), &model.factors(),
                                       &model.cast_weights().copies()};
  if (options_.training()) slabs.push_back(&model.step_gradients());
  for (const plan::Slab* slab : slabs)
    for (const plan::Slab::Item& item : slab->items())
      tensors.push_back({.name = item.name,
                         .shape = item.shape,
                         .dtype = item.dtype,
                         .category = item.category,
                         .bytes = item.bytes});
  std::stable_sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  return tensors;
}

MemoryTable Engine::memory_table(std::int64_t accumulate) const {
  MemoryTable table;
  Model& model = weights_->model();
  const auto tensors = [](const plan::Slab& slab) { return static_cast<int>(slab.items().size()); };
  table.add("weights", model.parameters().slab().bytes_by_category(), tensors(model.parameters().slab()));
  table.add("moments", weights_->state_slab().bytes_by_category(), tensors(weights_->state_slab()));
  table.add("factors", model.factors().bytes_by_category(), tensors(model.factors()));
  table.add("copies of weights", model.cast_weights().copies().bytes_by_category(),
            tensors(model.cast_weights().copies()));
  if (device_steps_) {
    const auto scratch = [&](const char* group, std::size_t bytes) {
      plan::BytesByCategory kinds{};
      kinds[static_cast<int>(plan::Category::scratch)] = bytes;
      table.add(group, kinds, 1);
    };
    scratch("batches", DeviceSteps::input_places(input_bytes()));
    scratch("modules", device_steps_->driver_memory().modules);
    scratch("graphs", device_steps_->driver_memory().graphs);
  }
  if (cache_) table.add("cache", cache_->slab().bytes_by_category(), tensors(cache_->slab()));
  if (options_.training())
    table.add("gradients", model.step_gradients().bytes_by_category(), tensors(model.step_gradients()));
  if (const plan::Plan* largest = largest_plan()) table.add(*largest);
  add_flops(table, accumulate);
  std::stable_sort(table.rows.begin(), table.rows.end(),
                   [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  return table;
}

}  // namespace comera::engine
