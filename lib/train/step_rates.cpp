#include "lib/train/step_rates.h"

namespace comera::train {

engine::UpdateStep update_step(const TrainOptions& options, const RankAdaptation& ranks, std::int64_t done) {
  const double factor = options.schedule.factor(done);
  // On the way to the target the entries have a distance to cover, whatever the schedule is.
  const double rank_rate = ranks.pushing() ? ranks.falling_rate(options.rate_ranks) : options.rate_ranks * factor;
  const std::int64_t every = options.optimizer.refactor_every;
  const std::int64_t begun = every > 0 ? done - done % every : ranks.moments_begun();
  return {.step = done,
          .rates = {options.rate_cores * factor, rank_rate, options.rate * factor, options.rate_tables * factor},
          .rate_table_cores = options.rate_table_cores.value_or(options.rate_cores) * factor,
          .begun = {begun, begun}};  // cores and diagonals
}

}  // namespace comera::train
