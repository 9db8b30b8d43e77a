// CoMERA's two stages (arXiv 2405.14377, section 3), driven from the host between steps: the early stage weighs the
// task against the size; the late stage pushes whichever of the two is further from its target. What falls to the
// threshold is removed for good.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/train/importance.h"
#include "lib/train/removal.h"

namespace comera::train {

enum class TargetKind : std::uint8_t {
  none,      // early stage only
  ratio,     // parameters of the dense model / parameters of this one
  bytes,     // whole file of weights
  fraction,  // of the tensorised size when the late stage begins
};

struct RankOptions {
  bool adapt = true;  // false: ranks stay as they are, nothing is masked
  double threshold = 0.01, gamma = 0.01, rho_loss = 0.1, rho_size = 0.01;
  TargetKind target = TargetKind::none;
  double target_value = 0;
  std::int64_t prune_every = 100;  // steps between removals; 0: only when the target is met
  std::int64_t late_start = -1;    // first step of the late stage; -1: never
  std::int64_t late_deadline =
      -1;  // step at which the target is enforced if it was not reached by then; -1: when the run ends
};

// The state that a checkpoint keeps.
struct RankProgress {
  bool late = false, reached = false;
  double target_loss = 0;      // L0: the mean loss of the last steps of the early stage
  double target_size = 0;      // S0, in entries of cores (and of diagonals where bytes are the target)
  double surrogate_start = 1;  // S^ when the run began
  std::int64_t late_step = 0;  // where the late stage began, and the size then, measured as the target is
  double late_size = 0;
  std::vector<double> recent;  // the losses that L0 will be the mean of
  std::int64_t fallen = 0;     // entries removed so far because their diagonal fell to the threshold
  std::int64_t cut = 0;        // entries removed so far by cuts on the way to the target
  Sensitivity sensitivity;     // as the late stage began, before the penalty's gradient grew large beside the task's

  std::string to_json() const;
  static RankProgress from_json(const std::string& text);
};

class RankAdaptation {
 public:
  static constexpr std::size_t closing_steps = 100;  // that L0 is the mean of
  static constexpr std::int64_t cuts = 8;            // on the way to an enforced target

  // Refuses a target that the uncompressed rest of the model does not allow, naming the limit.
  RankAdaptation(Engine& engine, const RankOptions& options);
  RankAdaptation(Engine& engine, const RankOptions& options, RankProgress progress);

  const RankProgress& progress() const { return progress_; }
  bool has_target() const { return active_ && options_.target != TargetKind::none; }
  // True if this step belongs to the stage that moves towards the target.
  bool pushing() const { return progress_.late && !progress_.reached; }

  struct Event {
    bool late_begins = false, target_met = false;
    std::int64_t fallen = 0;  // entries removed because their diagonal fell to the threshold
    std::int64_t cut =
        0;  // entries removed by a scheduled cut: D^2 times AdamW's second moment decides, not the objective

    std::int64_t removed() const { return fallen + cut; }
  };
  // `step`: finished steps. Enters the late stage where it is time and sets the inputs of StepState::rank.
  Event before_step(std::int64_t step);
  // Looks at what the step measured; may rebuild the model.
  Event after_step(std::int64_t step);
  // The late stage begins at this step (where its beginning was a matter of time).
  void start_late(std::int64_t step) { options_.late_start = step; }
  // Meets the target now, if the run ends before it was met.
  Event finish(std::int64_t step);

  // The size of the model in the unit of its target, parameters or bytes, and the target itself; 0 without a target.
  double whole_now() const;
  double whole_target() const;

 private:
  SizeTarget size_target() const;
  void check_target() const;
  void begin_late(std::int64_t step, Event& event);
  void check_progress() const;
  bool cut_due(std::int64_t step) const;
  SizeTarget allowed(std::int64_t step) const;
  std::int64_t remove(const Kept& kept);
  std::int64_t remove_fallen(const Kept& kept);
  std::int64_t cut_to_size(const SizeTarget& size);
  void meet_target(bool enforced, Event& event);
  void set_threshold();

  Engine& engine_;
  RankOptions options_;
  RankProgress progress_;
  bool active_;  // there are ranks to adapt
};

}  // namespace comera::train
