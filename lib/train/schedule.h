// Learning rates over the steps of a run.
#pragma once

#include <cstdint>

namespace comera::train {

constexpr std::int64_t unset_warmup = -1;
// A twentieth of the steps; 100 if their number is unknown (0).
std::int64_t default_warmup(std::int64_t steps);

enum class ScheduleShape : std::uint8_t { constant, linear, cosine };

// A factor on every learning rate. It rises linearly over `warmup` steps, then stays or falls to `final_fraction` at
// step `steps`.
struct Schedule {
  ScheduleShape shape = ScheduleShape::linear;
  std::int64_t warmup = 0;
  std::int64_t steps = 0;  // of the whole run; read by linear and cosine only
  double final_fraction = 0;

  // The factor for the step after `step` finished ones; never 0 within the run unless final_fraction is 0.
  double factor(std::int64_t step) const;
  // True if a run of `steps` steps is over before the rate stays or falls. False if their number is unknown.
  bool only_rises() const { return steps > 0 && warmup >= steps && warmup > 1; }
};

// Tells of a schedule that only rises.
void warn_of_warmup(const Schedule& schedule);

}  // namespace comera::train
