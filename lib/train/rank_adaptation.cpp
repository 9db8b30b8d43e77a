#include "lib/train/rank_adaptation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "lib/core/error.h"
#include "lib/core/terminal/log.h"
#include "lib/core/units.h"
#include "lib/engine/weights_file.h"
#include "lib/train/importance.h"
#include "lib/train/least_loss.h"
#include "lib/train/refactor.h"

namespace comera::train {
namespace {

constexpr double no_threshold = -std::numeric_limits<double>::infinity();

// Number of parameters outside the cores, which no rank can remove.
std::int64_t rest_of(const Model& model) {
  std::int64_t cores = 0;
  for (const layers::ChainParameters& chain : model.chains())
    for (const Parameter* core : chain.cores) cores += core->shape.elements();
  return model.parameters().count() - cores;
}

// Bytes per number of a core and of a diagonal in the exported file.
struct Widths {
  double core = 0, entry = 0;
};

Widths widths_of(const Model& model) {
  Widths widths;
  for (const Parameter& parameter : model.parameters().all()) {
    const auto bytes = static_cast<double>(size_of(parameter.stored.value_or(parameter.value.dtype)));
    if (parameter.role == layers::Role::core) widths.core = bytes;
    if (parameter.role == layers::Role::diagonal) widths.entry = bytes;
  }
  return widths;
}

// Bytes of that file without cores and diagonals.
double file_rest(const Model& model, const Widths& widths) {
  const auto cores = static_cast<double>(model.parameters().count() - rest_of(model));
  return static_cast<double>(weights_file_bytes(model, engine::FileTypes::stored)) - cores * widths.core -
         static_cast<double>(model.parameters().rank_entries()) * widths.entry;
}

bool has_ranks(const Model& model) { return model.parameters().rank_entries() > 0; }

}  // namespace

RankAdaptation::RankAdaptation(Engine& engine, const RankOptions& options, kernels::RankPenalty penalty)
    : RankAdaptation(engine, options, RankProgress{}) {
  if (penalty == kernels::RankPenalty::size && has_ranks(engine.model()))
    progress_.surrogate_start = surrogate_at_start(engine.model());
  check_target();
}

RankAdaptation::RankAdaptation(Engine& engine, const RankOptions& options, RankProgress progress)
    : engine_(engine),
      options_(options),
      progress_(std::move(progress)),
      active_(options.adapt && has_ranks(engine.model())) {
  std::vector<ChainDiagonals> chains = chains_of(engine.model());
  if (active_) set_floors(chains, options_.floors);  // refuses a name that matches nothing
  if (options_.late_deadline < 0) options_.late_deadline = progress_.late_deadline;
  set_threshold();
}

void RankAdaptation::start_late(std::int64_t step, std::int64_t deadline) {
  options_.late_start = step;
  options_.late_deadline = progress_.late_deadline = deadline;
}

void RankAdaptation::set_threshold() {
  engine_.model().set_threshold(active_ && !progress_.reached ? options_.threshold : no_threshold);
}

SizeTarget RankAdaptation::asked_target() const {
  const Model& model = engine_.model();
  const auto rest = static_cast<double>(rest_of(model));
  switch (options_.target) {
    case TargetKind::none: return {};
    case TargetKind::fraction: return {progress_.target_size, 0, 0};
    case TargetKind::ratio:
      return {static_cast<double>(model.parameters_dense()) / options_.target_value - rest, 0, rest};
    case TargetKind::bytes: {
      const Widths widths = widths_of(model);
      const double fixed = file_rest(model, widths) / widths.core;
      return {options_.target_value / widths.core - fixed, widths.entry / widths.core, fixed};
    }
  }
  return {};
}

double RankAdaptation::least_size(const SizeTarget& target) const {
  if (options_.floors.empty()) return 0;
  std::vector<ChainDiagonals> chains = chains_of(engine_.model());
  set_floors(chains, options_.floors);
  return target.measure(chains, floors_of(chains));
}

SizeTarget RankAdaptation::size_target() const {
  SizeTarget target = asked_target();
  target.size = std::max(target.size, least_size(target));
  return target;
}

std::vector<ChainDiagonals> RankAdaptation::diagonals() const {
  std::vector<ChainDiagonals> chains = read_diagonals(engine_.weights());
  set_floors(chains, options_.floors);
  return chains;
}

// `size`: the largest that a target may leave, in core entries.
void RankAdaptation::check_floors(double size) const {
  if (options_.floors.empty()) return;
  if (!active_) fail_input("[rank] --rank-floor: no rank is adapted; leave it out, or use --form tt");
  const double least = least_size(asked_target());
  if (options_.target != TargetKind::none && least > size)
    fail_input(
        "[rank] the floors of --rank-floor alone keep {:.0f} core entries, and the target leaves {:.0f}; lower one of "
        "them",
        least, size);
}

void RankAdaptation::check_target() const {
  if (options_.target == TargetKind::none) return check_floors(0);
  if (!active_) fail_input("[rank] the model has no ranks that could be cut; leave out the target, or use --form tt");
  if (options_.target == TargetKind::fraction) {
    const std::vector<ChainDiagonals> chains = chains_of(engine_.model());
    if (options_.target_value > 0)
      return check_floors(options_.target_value * static_cast<double>(size_of(chains, above(chains, no_threshold))));
    fail_input("[rank] --target-fraction 0 cannot be reached: some of the cores must stay; use a fraction above 0");
  }
  const SizeTarget target = asked_target();
  if (target.size > 0) return check_floors(target.size);
  if (options_.target == TargetKind::ratio)
    fail_input(
        "[rank] --target-ratio {} cannot be reached: the part without tensor-train form limits the ratio to {:.2f}",
        format_real(options_.target_value), static_cast<double>(engine_.model().parameters_dense()) / target.rest);
  fail_input(
      "[rank] --target-size of {:.0f} bytes cannot be reached: the part without tensor-train form takes {:.0f} "
      "bytes",
      options_.target_value, target.rest * widths_of(engine_.model()).core);
}

double RankAdaptation::falling_rate(double given) const {
  const std::int64_t steps = options_.late_deadline - progress_.late_step;
  return steps > 0 ? travel / static_cast<double>(steps) : given;
}

// Fixes L0 and S0, after the entries that fell to the threshold were removed from the model.
void RankAdaptation::begin_late(std::int64_t step, Event& event) {
  event.late_begins = true;
  remove_fallen(above(diagonals(), options_.threshold), event);
  progress_.late = true;
  progress_.late_step = step;
  refactor_by_singular_values(engine_);
  const double count = static_cast<double>(std::max<std::size_t>(progress_.recent.size(), 1));
  progress_.target_loss = std::accumulate(progress_.recent.begin(), progress_.recent.end(), 0.0) / count;
  const std::vector<ChainDiagonals> chains = diagonals();
  const Kept kept = above(chains, options_.threshold);
  if (options_.target == TargetKind::fraction)
    progress_.target_size = options_.target_value * static_cast<double>(size_of(chains, kept));
  if (options_.target != TargetKind::fraction) progress_.target_size = asked_target().size;
  if (const double least = least_size(asked_target()); least > progress_.target_size) {
    log_warning(
        "[rank] the floors of --rank-floor alone keep {:.0f} core entries, and the target leaves {:.0f}: the run ends "
        "with the floors",
        least, progress_.target_size);
    progress_.target_size = least;
  }
  progress_.late_size = size_target().measure(chains, kept);
}

void RankAdaptation::remove_fallen(const Kept& kept, Event& event) {
  const std::int64_t removed = remove_all_but(engine_, kept, &event.fallen_by_bond);
  event.fallen += removed;
  progress_.fallen += removed;
}

// The moments of a stage whose objective pushes the size are not those of the loss, so they do not count there.
void RankAdaptation::cut(double allowed, Event& event) {
  std::vector<ChainDiagonals> chains = importances(engine_.weights(), by_cuts());
  set_floors(chains, options_.floors);
  const std::int64_t removed =
      remove_all_but(engine_, cut_with_least_loss(chains, size_target(), allowed), &event.cut_by_bond);
  event.cut += removed;
  progress_.cut += removed;
}

// Without a scheduled cut the largest diagonals stay, because enough entries fell to the threshold.
void RankAdaptation::meet_target(bool enforced, Event& event) {
  if (enforced)
    cut(0, event);
  else
    remove_fallen(cut_to(diagonals(), size_target()), event);
  event.target_met = progress_.reached = true;
  set_threshold();
}

bool RankAdaptation::by_cuts() const { return options_.scheduled_cuts > 0; }

bool RankAdaptation::cut_due(std::int64_t step) const {
  const std::int64_t steps = options_.late_deadline - progress_.late_step;
  if (!progress_.late || steps <= 0 || !by_cuts()) return false;
  return (step - progress_.late_step) % std::max<std::int64_t>(steps / options_.scheduled_cuts, 1) == 0;
}

// Many small cuts cost less than one large cut. The allowed excess falls with the cube of the remaining time (Zhu and
// Gupta 2017, arXiv 1710.01878).
double RankAdaptation::allowed(std::int64_t step) const {
  const double target = size_target().size;
  const double left = static_cast<double>(options_.late_deadline - step) /
                      static_cast<double>(options_.late_deadline - progress_.late_step);
  return target + std::max(progress_.late_size - target, 0.0) * std::pow(std::max(left, 0.0), 3);
}

// The loss of a task with few classes falls by little, and the loss itself as the unit would allow a model that answers
// by chance. A run that began with a learned model has learned nothing that could be measured: a tenth of the loss
// then.
double RankAdaptation::weight_of_loss() const {
  if (options_.loss_tolerance == 0 || !progress_.late) return 0;
  const double learned = std::max(progress_.first_loss - progress_.target_loss, 0.1 * progress_.target_loss);
  return learned > 0 ? 1 / (options_.loss_tolerance * learned) : 0;
}

RankAdaptation::Event RankAdaptation::before_step(std::int64_t step) {
  Event event;
  if (has_target() && !progress_.late && options_.late_start >= 0 && step >= options_.late_start) {
    begin_late(step, event);
  }
  kernels::RankState& state = engine_.state().rank;
  const bool cuts = progress_.late && by_cuts();
  state.gamma = active_ && !cuts ? options_.gamma : 0;
  state.weight_norm = !cuts;
  state.rho_loss = options_.rho_loss;
  state.rho_size = options_.rho_size;
  state.surrogate_start = progress_.surrogate_start;
  state.late = progress_.late && !cuts;
  state.target_loss = progress_.target_loss;
  state.weight_loss = weight_of_loss();
  state.target_size = progress_.target_size;
  state.reached = progress_.reached;
  return event;
}

RankAdaptation::Event RankAdaptation::after_step(std::int64_t step) {
  Event event;
  if (!active_) return event;
  if (!progress_.late) {
    if (progress_.recent.size() == closing_steps) progress_.recent.erase(progress_.recent.begin());
    progress_.recent.push_back(engine_.state().loss[0]);
    if (step <= first_steps)
      progress_.first_loss += (engine_.state().loss[0] - progress_.first_loss) / static_cast<double>(step);
  }
  if (progress_.reached) return event;
  if (!options_.floors.empty() && raise_to_floors(engine_.weights(), options_.floors, options_.threshold))
    engine_.weights_changed();
  const kernels::RankState& state = engine_.state().rank;
  const SizeTarget target = progress_.late ? size_target() : SizeTarget{};
  // The device measured before its update, so the exact size is computed as soon as the measured size is near.
  const bool near = progress_.late && state.size + target.per_entry * state.active <= 1.1 * target.size;
  bool met = false;
  if (near) {
    const std::vector<ChainDiagonals> chains = diagonals();
    met = target.measure(chains, above(chains, options_.threshold)) <= target.size;
  }
  const bool overdue = progress_.late && options_.late_deadline >= 0 && step >= options_.late_deadline;
  if (met || overdue) {
    meet_target(!met, event);
  } else if (cut_due(step) && whole_now() > allowed(step) + target.rest) {
    cut(allowed(step), event);
  } else if (options_.prune_every > 0 && step % options_.prune_every == 0) {
    remove_fallen(above(diagonals(), options_.threshold), event);
  }
  return event;
}

RankAdaptation::Event RankAdaptation::finish(std::int64_t step) {
  Event event;
  if (!has_target() || progress_.reached) return event;
  if (!progress_.late) begin_late(step, event);
  meet_target(true, event);
  return event;
}

double RankAdaptation::whole_now() const {
  if (!has_target()) return 0;
  const std::vector<ChainDiagonals> chains = diagonals();
  const SizeTarget target = size_target();
  return target.measure(chains, above(chains, engine_.model().threshold())) + target.rest;
}

double RankAdaptation::whole_target() const { return has_target() ? size_target().size + size_target().rest : 0; }

}  // namespace comera::train
