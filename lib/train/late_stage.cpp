#include "lib/train/late_stage.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lib/core/error.h"

namespace comera::train {

LateStage::LateStage(const TrainOptions& options, std::int64_t steps, std::int64_t steps_per_epoch)
    : steps_(steps), max_seconds_(options.max_seconds) {
  if (options.ranks.target == TargetKind::none) return;
  if (options.late_after) {
    known_.start = steps_of(*options.late_after, steps_per_epoch, "--late-after").value_or(-1);
    if (known_.start < 0) after_ = options.late_after->value;
  } else if (steps_ > 0) {
    known_.start = steps_ * 2 / 3;
  } else {
    after_ = max_seconds_ * 2 / 3;
  }
  if (steps_ > 0 && known_.start >= steps_)
    fail_input("[chain] the late stage begins at step {}, but the run has {}; use a smaller --late-after", known_.start,
               steps_);
  if (steps_ > 0 && known_.start >= 0) known_.deadline = known_.start + (steps_ - known_.start) / 2;
}

std::optional<LateStage::Steps> LateStage::begun(std::int64_t step, double seconds) const {
  if (!after_ || seconds < *after_ || step < least_steps) return std::nullopt;
  double left = steps_ > 0 ? static_cast<double>(steps_ - step) : std::numeric_limits<double>::max();
  if (max_seconds_ > 0) left = std::min(left, (max_seconds_ / seconds - 1) * static_cast<double>(step));
  return Steps{step, step + std::llround(std::max(left, 0.0) / 2)};
}

}  // namespace comera::train
