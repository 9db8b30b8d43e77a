#include "lib/train/trainer.h"

#include <cmath>
#include <numeric>
#include <utility>

#include "lib/core/error.h"
#include "lib/core/memory.h"
#include "lib/core/process.h"
#include "lib/core/terminal/log.h"
#include "lib/core/terminal/stop.h"
#include "lib/data/corpus.h"
#include "lib/train/core_rates.h"
#include "lib/train/refactor.h"
#include "lib/train/step_rates.h"

namespace comera::train {
namespace {

constexpr std::size_t watched_steps = 20;  // the mean of their losses shows divergence
constexpr double divergence = 3;           // times the mean of the first steps, plus 1

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) /
         static_cast<double>(std::max<std::size_t>(values.size(), 1));
}

std::int64_t inner_bonds(const Model& model) {
  std::int64_t bonds = 0;
  for (const layers::ChainParameters& chain : model.chains())
    if (!chain.folded) bonds += static_cast<std::int64_t>(chain.layout.cores()) - 1;
  return bonds;
}

}  // namespace

Trainer::Trainer(const TrainInputs& inputs, const TrainOptions& options, RunFolder& folder, TrainCallbacks callbacks)
    : inputs_(inputs), options_(options), folder_(folder), callbacks_(std::move(callbacks)), meter_(inputs.machine) {
  if (inputs.resume) state_ = folder.last_state(inputs.skip_damaged).value_or(TrainState());
  build();
  refuse_what_does_not_fit();
}

void Trainer::build() {
  engine::EngineOptions how = options_.training_engine();
  how.poll = check_stop;
  engine_ = std::make_unique<Engine>(inputs_.machine, inputs_.factory, how, state_.rank_table);
  if (options_.optimizer.refactor_every > 0) require_refactorable(engine_->model());
  data::LoaderOptions loading;
  loading.batch = options_.batch;
  loading.accumulate = options_.accumulate;
  loading.seed = options_.seed;
  loading.mask_probability = options_.mask_probability;
  loading.whole_words = options_.whole_words;
  loading.threads = options_.threads;
  loader_ = data::Loader::open(inputs_.data, loading, state_.data);
  parts_.resize(static_cast<std::size_t>(options_.accumulate));
  steps_ = options_.schedule.steps = total_steps(options_, loader_->steps_per_epoch());
  if (options_.schedule.warmup == unset_warmup) options_.schedule.warmup = default_warmup(steps_);
  late_ = LateStage(options_, steps_, loader_->steps_per_epoch());
  options_.ranks.late_start = late_.known().start;
  options_.ranks.late_deadline = late_.known().deadline;
  ranks_ = state_.step == 0 ? std::make_unique<RankAdaptation>(*engine_, options_.ranks, options_.optimizer.penalty)
                            : std::make_unique<RankAdaptation>(*engine_, options_.ranks, state_.ranks);
  plan_memory();
}

void Trainer::plan_memory() {
  data::Batch batch = engine_->model().planning_batch(options_.batch, loader_->longest(), options_.mask_probability);
  if (inputs_.dev && !dev_teacher()) engine_->plan_evaluation(batch);
  if (inputs_.teacher) inputs_.teacher->plan(batch);
  engine_->plan_training(batch);
  if (inputs_.dev) engine_->plan_evaluation(batch);
  planned_peak_ =
      std::max(planned_peak_,
               engine_->planned_bytes() + (inputs_.teacher ? inputs_.teacher->planned_bytes() : 0) + reader_bytes());
}

// Compares the plan with the free memory before memory is allocated and before the folder is changed. A system that
// promises more than it has would kill the process later.
void Trainer::refuse_what_does_not_fit() const {
  const kernels::Backend& backend = *inputs_.machine.backend;
  std::size_t free = 0, total = 0;
  if (!backend.device.free_bytes) {
    const FreeMemory host = free_memory();
    free = host.free, total = host.total;
  } else if (backend.device.free_bytes(&free, &total) != kernels::Status::ok) {
    return;
  }
  if (total == 0 || planned_peak_ <= free) return;
  fail_input("[memory] the run needs {} on {} {}, where {} of {} are free; {}", format_bytes(planned_peak_),
             backend.name, backend.variant, format_bytes(free), format_bytes(total), cheaper(free));
}

std::string Trainer::cheaper(std::size_t free) const {
  return inputs_.cheaper ? inputs_.cheaper(planned_peak_, free) : "use a smaller model or a smaller batch";
}

void Trainer::allocate() try {
  engine_->allocate();
  if (inputs_.teacher) inputs_.teacher->allocate();
} catch (const plan::OutOfMemory& error) {
  fail_run("{}; the run needs {} by plan; {}", error.missing(), format_bytes(planned_peak_), cheaper(0));
}

MemoryTable Trainer::memory_table() const {
  MemoryTable table = engine_->memory_table(options_.accumulate);
  if (inputs_.teacher) inputs_.teacher->add_to(table, options_.accumulate);
  plan::BytesByCategory readers{};
  readers[static_cast<int>(plan::Category::scratch)] = reader_bytes();
  table.add("documents to tokens", readers, 0);
  return table;
}

// Host memory of the data readers: the readers of training continue while the dev data is read.
std::size_t Trainer::reader_bytes() const {
  if (inputs_.machine.backend->device.free_bytes) return 0;
  const std::size_t dev = inputs_.dev ? data::tokenising_bytes(*inputs_.dev, options_.threads) : 0;
  return data::tokenising_bytes(*inputs_.data, options_.threads) + dev;
}

std::string Trainer::recipe() const {
  return inputs_.recipe + (inputs_.machine.paths ? recipe_text(inputs_.machine.paths->table()) : "");
}

// Also writes the files that a model folder needs beside weights and configuration. A run that takes no further step
// keeps the recipe of its steps.
void Trainer::create_folder() {
  const bool fresh = state_.step == 0;
  if (fresh || !ended()) saved_recipe_ = recipe();
  folder_.create(saved_recipe_, fresh ? others() : nullptr);
}

std::function<void(const Folder&)> Trainer::others() const {
  return [this](const Folder& folder) {
    inputs_.data->save(folder);
    if (inputs_.side_files) inputs_.side_files(folder);
  };
}

// Reads all inputs before it changes the folder.
void Trainer::begin() {
  const bool fresh = state_.step == 0;
  if (!fresh) folder_.mend(others(), inputs_.skip_damaged);
  if (callbacks_.start) callbacks_.start(memory_table());
  if (!inputs_.machine.backend->device.free_bytes)
    meter_ = MemoryMeter();  // excludes host memory of data and readers from the step's peak
  allocate();
  if (!fresh) {
    take_up();
  } else {
    engine_->weights().initialise(options_.seed);
    if (inputs_.start) {
      inputs_.start(engine_->weights());
      if (!options_.ranks.adapt && remove_zeros(*engine_) > 0) plan_memory();
      if (options_.optimizer.structured_rates) state_.core_rates = stored_core_rates(engine_->weights());
    }
  }
  set_core_rates(engine_->model(), state_.core_rates);
  if (fresh && options_.ranks.floors.empty()) require_ranks(*engine_);
  session_start_ = wall_seconds() - state_.seconds;  // create_folder() asks if the time of the run is over
  create_folder();
  if (fresh) warn_of_warmup(options_.schedule);
  metrics_ =
      std::make_unique<Metrics>(folder_.folder(), whole_lines(folder_.folder(), "metrics.jsonl", state_.metrics_bytes));
  folder_.prune(options_.keep, state_);
  last_save_ = last_evaluation_ = state_.seconds;
}

// Continues the earlier session: measurements since its last line count towards the next one.
void Trainer::take_up() {
  folder_.load(state_.step, engine_->weights());
  saved_step_ = state_.step;
  const Means& means = state_.means;
  last_report_.loss = means.loss;
  last_report_.accuracy = means.accuracy;
  last_report_.step_ms = means.step_ms;
  last_report_.tokens_per_second = means.tokens_per_second;
  last_.task = options_.task, last_.labelled = options_.labelled;
  if (state_.evaluation.step != state_.step) return;
  last_.scores = state_.evaluation.scores;
  last_.clicks = state_.evaluation.clicks;
  last_.loss = state_.evaluation.loss;
  last_.accuracy = state_.evaluation.accuracy;
  last_.counted = state_.evaluation.counted;
  last_.seconds = state_.evaluation.seconds;
}

double Trainer::seconds() const { return wall_seconds() - session_start_; }

void Trainer::set_rates() {
  const engine::UpdateStep step = update_step(options_, *ranks_, state_.step);
  learning_rate_ = step.rates[static_cast<int>(layers::Role::other)];
  engine_->begin_step(options_.seed, step);
}

bool Trainer::train_step() {
  const double start = wall_seconds();
  if (const auto stage = late_.begun(state_.step, seconds()); stage && ranks_->deadline() < 0)
    ranks_->start_late(stage->start, stage->deadline);
  adapt(ranks_->before_step(state_.step));
  set_rates();
  if (!start_step()) return false;
  if (engine_->runs_beside() && !inputs_.teacher) look_ahead();
  engine_->finish();
  check_loss();
  ++state_.step;
  count_step();
  const std::int64_t every = options_.optimizer.refactor_every;
  if (every > 0 && state_.step % every == 0 && state_.step != steps_) refactor(*engine_), renew_core_rates();
  state_.stretch.seconds += wall_seconds() - start;
  adapt(ranks_->after_step(state_.step));
  return true;
}

// False if a signal came before the first weight changed: the step is abandoned, and a resumed run repeats it.
bool Trainer::start_step() {
  const data::LoaderState before = state_.data;
  take_batches();
  try {
    for (data::Batch& part : parts_) {
      check_stop();
      if (inputs_.teacher) inputs_.teacher->teach(part);
    }
    engine_->start(parts_);
  } catch (const Stopped&) {
    state_.data = before;
    return false;
  }
  return true;
}

void Trainer::take_batches() {
  if (ahead_.error) std::rethrow_exception(ahead_.error);
  if (std::exchange(ahead_.made, false)) {
    std::swap(parts_, ahead_.parts);
  } else {
    loader_->next(parts_);
  }
  state_.data = loader_->state();
}

// Prepares the next step's batches while the device computes this step. Errors in them are reported when their step
// begins.
void Trainer::look_ahead() {
  ahead_.parts.resize(parts_.size());
  try {
    ahead_.made = loader_->next(ahead_.parts);
    engine_->send_ahead(ahead_.parts);
  } catch (const InputError&) {
    ahead_.error = std::current_exception();
  }
}

void Trainer::count_step() {
  const layers::StepState& state = engine_->state();
  ++state_.stretch.steps;
  state_.stretch.loss += state.loss[0];
  state_.stretch.correct += state.correct;
  for (const data::Batch& part : parts_) {
    if (part.sequences == 0) continue;
    state_.stretch.tokens += part.tokens;
    state_.stretch.counted += part.counted;
    state_.tokens += part.tokens;
  }
}

void Trainer::check_loss() {
  const layers::StepState& state = engine_->state();
  if (state.scalars.finite == 0) fail(fmt::format("the loss or a gradient is not finite (loss {:g})", state.loss[0]));
  std::vector<double>& recent = state_.recent_losses;
  if (recent.size() == watched_steps) recent.erase(recent.begin());
  recent.push_back(state.loss[0]);
  if (recent.size() < watched_steps) return;
  if (state_.first_loss == 0) state_.first_loss = mean_of(recent);
  if (mean_of(recent) > divergence * state_.first_loss + 1)
    fail(fmt::format("the loss diverges: {:.3g} over the last {} steps, {:.3g} over the first", mean_of(recent),
                     watched_steps, state_.first_loss));
}

void Trainer::fail(const std::string& what) const {
  std::vector<std::int64_t> saved = folder_.checkpoints();
  // The checkpoint of the last step is not good: the failed step began with its weights.
  if (!saved.empty() && saved.back() == state_.step) saved.pop_back();
  const std::string good = saved.empty() ? "there is no good checkpoint yet"
                                         : "the last good checkpoint is " + folder_.checkpoint_path(saved.back());
  fail_run("[chain] step {}: {}; {}; use a smaller --lr, more --warmup or a smaller --clip", state_.step + 1, what,
           good);
}

// After a new factorisation, which changes the norms of cores.
void Trainer::renew_core_rates() {
  if (state_.core_rates.empty()) return;
  state_.core_rates = stored_core_rates(engine_->weights());
  set_core_rates(engine_->model(), state_.core_rates);
}

void Trainer::adapt(const RankAdaptation::Event& event) {
  if (event.late_begins) {
    log_info("step {}: the late stage begins", state_.step);
    metrics_->event(state_.step, seconds(), "late stage begins");
    renew_core_rates();
  }
  if (event.removed() > 0) {
    set_core_rates(engine_->model(), state_.core_rates);
    plan_memory();
    metrics_->model_changed();
    log_info("step {}: {} rank entries fell to the threshold and {} were cut by the schedule, {} parameters left",
             state_.step, event.fallen, event.cut, engine_->model().parameters().count());
    metrics_->removal(state_.step, seconds(), event);
  }
  if (!event.target_met) return;
  const RankProgress& progress = ranks_->progress();
  const char* event_name = progress.cut > 0 ? "target enforced" : "target reached";
  const std::string cut = progress.cut > 0 ? fmt::format("the schedule cut {} rank entries, ", progress.cut) : "";
  log_info("step {}: {}: {}{} fell to the threshold", state_.step, event_name, cut, progress.fallen);
  metrics_->event(state_.step, seconds(), event_name);
  // A resumed run may have a best model from before it had a target. That model is too large for the target.
  state_.best_step = -1;
  state_.best_accuracy = state_.best_loss = 0;
  state_.best_scores = {};
  state_.best_clicks = {};
}

StepReport Trainer::report_of() const {
  const layers::StepState& state = engine_->state();
  const Model& model = engine_->model();
  StepReport report = last_report_;
  report.step = state_.step;
  report.steps = steps_;
  report.seconds = seconds();
  report.has_accuracy = engine::has_accuracy(options_.task, options_.labelled);
  report.learning_rate = learning_rate_;
  report.gradient_norm = std::sqrt(state.square_sum + state.applied_square_sum);
  std::int64_t stored = 0;
  for (const layers::ChainParameters& chain : model.chains())
    for (const Parameter* core : chain.cores)
      if (!chain.folded) stored += core->shape.elements();
  report.has_ranks = inner_bonds(model) > 0;
  const double active =
      static_cast<double>(model.parameters().count() - stored) + (report.has_ranks ? state.rank.size : 0);
  report.ratio = static_cast<double>(model.parameters_dense()) / std::max(active, 1.0);
  report.mean_rank = report.has_ranks ? state.rank.active / static_cast<double>(inner_bonds(model)) : 0;
  if (state_.stretch.steps == 0) return report;
  report.loss = state_.stretch.loss / static_cast<double>(state_.stretch.steps);
  report.accuracy = state_.stretch.correct / static_cast<double>(std::max<std::int64_t>(state_.stretch.counted, 1));
  report.step_ms = 1000 * state_.stretch.seconds / static_cast<double>(state_.stretch.steps);
  report.tokens_per_second = static_cast<double>(state_.stretch.tokens) / std::max(state_.stretch.seconds, 1e-9);
  return report;
}

void Trainer::report() {
  last_report_ = report_of();
  last_report_.peak_bytes = meter_.peak();
  metrics_->step(last_report_, *engine_);
  state_.means = {last_report_.loss, last_report_.accuracy, last_report_.step_ms, last_report_.tokens_per_second};
  state_.stretch = {};
}

// True if the last evaluation is better than the best model so far; of equal ones, that with the smaller loss. Runs of
// earlier versions without labels may ask for a correlation, which they do not have.
bool Trainer::gains() const {
  const bool has_less_loss = last_.loss < state_.best_loss;
  const auto is_better = [&](double now, double best) { return now > best || (now == best && has_less_loss); };
  if (options_.best_by == Metric::accuracy) return is_better(last_.accuracy, state_.best_accuracy);
  if (options_.best_by == Metric::spearman && last_.scores.count > 0)
    return is_better(last_.scores.spearman, state_.best_scores.spearman);
  return has_less_loss;
}

void Trainer::evaluate_now() {
  if (!inputs_.dev || state_.evaluation.step == state_.step) return;
  const double start = wall_seconds();
  engine::EvaluationOptions evaluation{.batch = options_.batch,
                                       .seed = options_.seed,
                                       .mask_probability = options_.mask_probability,
                                       .whole_words = options_.whole_words};
  evaluation.threads = options_.threads;
  if (Teacher* teacher = dev_teacher()) evaluation.teach = [teacher](data::Batch& batch) { teacher->teach(batch); };
  evaluation.require_finite = false;  // a continuing run may recover, and a finished one keeps its weights
  state_.evaluation_due = true;
  try {
    const StopAnswer answer("stopping; the checkpoint keeps that this evaluation is due; again to quit now", false);
    last_ = evaluate(*engine_, inputs_.dev, evaluation);
  } catch (const Stopped&) {
    return;
  }
  state_.evaluation_due = false;
  state_.evaluation = {state_.step,   last_.loss,   last_.accuracy, last_.seconds,
                       last_.counted, last_.scores, last_.clicks};
  metrics_->evaluation(state_.step, seconds(), last_, *engine_);
  // Models that have not reached the target do not count as best.
  const bool counts = !ranks_->has_target() || ranks_->progress().reached;
  const bool better = counts && last_.counted > 0 && (state_.best_step < 0 || gains());
  if (better) {
    folder_.save_best(LiveWeights(*engine_).weights(), state_.step);
    state_.best_step = state_.step;
    state_.best_loss = last_.loss;
    state_.best_accuracy = last_.accuracy;
    state_.best_scores = last_.scores;
    state_.best_clicks = last_.clicks;
  }
  state_.evaluations_without_gain = better || !counts ? 0 : state_.evaluations_without_gain + 1;
  last_evaluation_ = seconds();
  log_detail("step {}: evaluated in {:.2f} s", state_.step, wall_seconds() - start);
  if (callbacks_.evaluation) callbacks_.evaluation(state_.step, last_, better);
}

// The recipe with newly measured paths is written before the weights that were computed by them.
void Trainer::save() {
  if (std::string text = recipe(); saved_recipe_ && text != *saved_recipe_)
    folder_.save_recipe(*(saved_recipe_ = std::move(text)));
  if (saved_step_ == state_.step) return;
  state_.seconds = seconds();
  state_.ranks = ranks_->progress();
  state_.rank_table.clear();
  for (const layers::ChainParameters& chain : engine_->model().chains())
    state_.rank_table[chain.name] = chain.layout.ranks;
  state_.metrics_bytes = metrics_->sync();
  folder_.save(engine_->weights(), state_);
  folder_.prune(options_.keep, state_);
  metrics_->forget();  // so that a resumed run writes the same lines as an uninterrupted one
  saved_step_ = state_.step;
  last_save_ = seconds();
}

bool Trainer::due(const std::optional<Period>& period, double& last, const char* option) {
  if (!period) return false;
  const std::optional<std::int64_t> steps = steps_of(*period, loader_->steps_per_epoch(), option);
  return steps ? state_.step % *steps == 0 : seconds() - last >= period->value;
}

std::optional<RunEnd> Trainer::ended() const {
  if (stop_signal() != 0) return RunEnd::signal;
  if (steps_ > 0 && state_.step >= steps_) return RunEnd::steps;
  if (options_.max_seconds > 0 && seconds() >= options_.max_seconds) return RunEnd::time;
  if (options_.patience > 0 && state_.evaluations_without_gain >= options_.patience) return RunEnd::early;
  return std::nullopt;
}

void Trainer::after_step() {
  const bool line = state_.step % options_.log_every == 0 || state_.step == steps_;
  if (line) report();
  if (callbacks_.step) callbacks_.step(line ? last_report_ : report_of(), line);
  if (due(options_.eval_every, last_evaluation_, "--eval-every")) evaluate_now();
  if (due(options_.save_every, last_save_, "--save-every")) save();
}

// A run that a signal stopped is to be resumed: its target is not enforced and it is not evaluated.
void Trainer::close(RunResult& result) {
  if (result.end == RunEnd::signal) {
    result.signal = stop_signal();
  } else {
    const RankAdaptation::Event event = ranks_->finish(state_.step);
    if (event.target_met) saved_step_ = state_.evaluation.step = -1;
    adapt(event);
    evaluate_now();
    warn_without_ranks(*engine_);
    if (state_.evaluation_due) result.end = RunEnd::signal, result.signal = stop_signal();
  }
  save();
  folder_.publish(LiveWeights(*engine_).weights(), state_);
}

RunResult Trainer::run() {
  begin();
  if (callbacks_.first_step) callbacks_.first_step(state_.step, steps_);
  if (std::exchange(state_.evaluation_due, false)) evaluate_now();
  RunResult result;
  std::optional<RunEnd> end;
  while (!(end = ended())) {
    if (train_step()) after_step();
  }
  result.end = *end;
  // Reports the last steps of a run that ends by time or early. A short run would otherwise have no line.
  if (*end != RunEnd::signal && state_.stretch.steps > 0) {
    report();
    if (callbacks_.step) callbacks_.step(last_report_, true);
  }
  close(result);
  result.step = state_.step;
  result.steps = steps_;
  result.seconds = seconds();
  result.loss = last_report_.loss;
  result.last = last_;
  result.best_step = state_.best_step;
  result.best_loss = state_.best_loss;
  result.best_accuracy = state_.best_accuracy;
  result.best_scores = state_.best_scores;
  result.best_clicks = state_.best_clicks;
  result.memory = memory_table();
  result.planned_peak =
      planned_peak_ + engine_->driver_bytes() + (inputs_.teacher ? inputs_.teacher->driver_bytes() : 0);
  result.measured_peak = meter_.peak();
  result.waited_ms = loader_->waited_ms();
  return result;
}

}  // namespace comera::train
