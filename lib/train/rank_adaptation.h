// Ranks that fall while the model learns, controlled from the host between steps. The early stage is CoMERA's (arXiv
// 2405.14377, section 3): it weighs the task against the size, and entries that fall to the threshold are removed
// permanently. The late stage brings the model to a target size in one of two ways:
//   scheduled cuts      the loss alone is minimised, and the entries that it needs least are cut in a few steps
//   CoMERA's objective  (scheduled_cuts 0) pushes whichever of loss and size is further from its target
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/train/chain_sizes.h"
#include "lib/train/rank_floor.h"
#include "lib/train/removal.h"

namespace comera::train {

enum class TargetKind : std::uint8_t {
  none,      // early stage only
  ratio,     // parameters of the dense model / parameters of this one
  bytes,     // whole file of weights
  fraction,  // of the tensorised size at the start of the late stage
};

struct RankOptions {
  bool adapt = true;  // false: ranks are fixed, nothing is masked
  double threshold = 0.01, gamma = 0.01, rho_loss = 0.1, rho_size = 0.01;
  // Above 0: the late stage measures how far the loss is from its target by this share of what the early stage has
  // learned, in place of the loss itself.
  double loss_tolerance = 0;
  TargetKind target = TargetKind::none;
  double target_value = 0;
  std::int64_t prune_every = 100;   // steps between removals; 0: only when the target is met
  std::int64_t scheduled_cuts = 8;  // before the target is enforced; 0: the objective alone
  std::int64_t late_start = -1;     // first step of the late stage; -1: never
  // Step at which the target is enforced if it has not been reached; -1: when the run ends.
  std::int64_t late_deadline = -1;
  std::vector<RankFloor> floors = {};
};

// The state that a checkpoint keeps.
struct RankProgress {
  bool late = false, reached = false;
  double first_loss = 0;       // the mean loss of the first steps of the run; 0: not known
  double target_loss = 0;      // L0: the mean loss of the last steps of the early stage
  double target_size = 0;      // S0, in core entries (and diagonal entries for a target in bytes)
  double surrogate_start = 1;  // S^ when the run began
  std::int64_t late_step = 0;  // first step of the late stage; the size at that step is measured as the target is
  double late_size = 0;
  std::int64_t late_deadline = -1;  // of RankOptions, where it was not known before the stage began
  std::vector<double> recent;       // the losses that L0 is the mean of
  std::int64_t fallen = 0;          // entries removed so far because their diagonal fell to the threshold
  std::int64_t cut = 0;             // entries removed so far by scheduled cuts

  std::string to_json() const;
  static RankProgress from_json(const std::string& text);
};

class RankAdaptation {
 public:
  static constexpr std::int64_t first_steps = 20;    // number of losses in the mean of the first
  static constexpr std::size_t closing_steps = 100;  // number of losses in the mean L0
  static constexpr double travel = 3;                // above 1, because an entry does not fall in every step

  // Throws if the uncompressed rest of the model makes the target impossible. The message names the limit.
  // `penalty`: of the optimiser.
  RankAdaptation(Engine& engine, const RankOptions& options, kernels::RankPenalty penalty = kernels::RankPenalty::size);
  RankAdaptation(Engine& engine, const RankOptions& options, RankProgress progress);

  const RankProgress& progress() const { return progress_; }
  bool has_target() const { return active_ && options_.target != TargetKind::none; }
  // True if the objective of this step moves entries towards the target.
  bool pushing() const { return progress_.late && !progress_.reached && !by_cuts(); }
  // Learning rate of the diagonals in that stage: an entry that falls in every step moves by `travel` until the target
  // is enforced. `given` is the rate where there is no such step.
  double falling_rate(double given) const;
  // The step before which the moments of cores and diagonals were last 0.
  std::int64_t moments_begun() const { return progress_.late ? progress_.late_step : 0; }

  struct Event {
    bool late_begins = false, target_met = false;
    std::int64_t fallen = 0;  // entries removed because their diagonal fell to the threshold
    std::int64_t cut = 0;     // entries removed by a scheduled cut, or where the target was enforced
    RemovedByBond fallen_by_bond = {}, cut_by_bond = {};

    std::int64_t removed() const { return fallen + cut; }
  };
  // `step`: number of finished steps. Begins the late stage if it is due and sets the inputs of StepState::rank.
  Event before_step(std::int64_t step);
  // Reads the measurements of the step. May rebuild the model.
  Event after_step(std::int64_t step);
  // Makes the late stage begin at this step, for a beginning that depends on time; `deadline` as in RankOptions.
  void start_late(std::int64_t step, std::int64_t deadline);
  std::int64_t deadline() const { return options_.late_deadline; }
  // Meets the target now if the run ends before the target was met.
  Event finish(std::int64_t step);

  // The model size in the unit of its target (parameters or bytes), and the target itself; 0 without a target.
  double whole_now() const;
  double whole_target() const;

 private:
  std::vector<ChainDiagonals> diagonals() const;      // with their floors
  SizeTarget asked_target() const;                    // as the options say
  double least_size(const SizeTarget& target) const;  // that the floors allow, in the unit of the target
  SizeTarget size_target() const;                     // not below the floors
  void check_floors(double size) const;
  void check_target() const;
  void begin_late(std::int64_t step, Event& event);
  double weight_of_loss() const;  // w1 of kernels/step_scalars.h
  bool by_cuts() const;           // true: scheduled cuts; false: CoMERA's objective
  bool cut_due(std::int64_t step) const;
  double allowed(std::int64_t step) const;  // size, in the unit of size_target().size
  void remove_fallen(const Kept& kept, Event& event);
  void cut(double allowed, Event& event);
  void meet_target(bool enforced, Event& event);
  void set_threshold();

  Engine& engine_;
  RankOptions options_;
  RankProgress progress_;
  bool active_;  // there are ranks to adapt
};

}  // namespace comera::train
