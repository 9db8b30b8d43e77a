#include "lib/train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "lib/core/terminal/log.h"

namespace comera::train {

std::int64_t default_warmup(std::int64_t steps) { return steps > 0 ? (steps + 19) / 20 : 100; }

double Schedule::factor(std::int64_t step) const {
  if (step < warmup) return static_cast<double>(step + 1) / static_cast<double>(warmup);
  if (shape == ScheduleShape::constant) return 1;
  const double length = static_cast<double>(std::max<std::int64_t>(steps - warmup, 1));
  const double done = std::min(static_cast<double>(step - warmup) / length, 1.0);
  const double left = shape == ScheduleShape::linear ? 1 - done : (1 + std::cos(std::numbers::pi * done)) / 2;
  return final_fraction + (1 - final_fraction) * left;
}

void warn_of_warmup(const Schedule& schedule) {
  if (schedule.only_rises())
    log_warning(
        "--warmup {}: the learning rate rises during all {} steps of the run{}; use --warmup {}, a twentieth of them",
        schedule.warmup, schedule.steps,
        schedule.warmup == schedule.steps
            ? ""
            : fmt::format(", and reaches {:.0f} % of the full rate", 100 * schedule.factor(schedule.steps - 1)),
        default_warmup(schedule.steps));
}

}  // namespace comera::train
