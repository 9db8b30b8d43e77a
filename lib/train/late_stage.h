// When the late stage of a run with a target begins, and when its target is enforced: the last third of the run by
// default, and the middle of that stage. The remaining steps heal the model.
#pragma once

#include <cstdint>
#include <optional>

#include "lib/train/train_options.h"

namespace comera::train {

class LateStage {
 public:
  struct Steps {
    std::int64_t start = -1, deadline = -1;  // as in RankOptions
  };
  static constexpr std::int64_t least_steps = 20;  // from which the time of a step is known

  LateStage() = default;  // no late stage
  // `steps`: of the run, 0 where a time ends it. Throws InputError for a stage that begins after the run.
  LateStage(const TrainOptions& options, std::int64_t steps, std::int64_t steps_per_epoch);

  // -1 where the stage begins after a time.
  const Steps& known() const { return known_; }
  // The stage that begins at `step` because its time is over, after `seconds` of the run. Where a time ends the run,
  // the steps that are left are estimated from those before.
  std::optional<Steps> begun(std::int64_t step, double seconds) const;

 private:
  std::int64_t steps_ = 0;
  double max_seconds_ = 0;
  Steps known_;
  std::optional<double> after_;  // seconds
};

}  // namespace comera::train
