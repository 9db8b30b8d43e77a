#include "lib/compress/refine/where_it_pays.h"

#include "lib/compress/calibration/calibration_text.h"

namespace comera::compress {
namespace {

constexpr double operations_per_second = 1.6e11;

}  // namespace

bool gains_by_refinement(const io::ChainSpec& chain) {
  return !chain.layout.empty() || (chain.base && quant::bits_of(*chain.base) < 4);
}

bool gains_by_refinement(const LayerPlan& plan) {
  return plan.form != PlannedForm::grid || plan.rank > 0 || quant::bits_of(plan.grid) < 4;
}

double refinement_seconds(const std::vector<LayerJob>& jobs, const Refinement& refinement) {
  double weights = 0;
  for (const LayerJob& job : jobs)
    if (!job.candidate.table) weights += static_cast<double>(job.candidate.elements());
  // One product forward and two backward, each with an addition for every multiplication.
  const double operations = 6 * weights * static_cast<double>(refinement.steps * tokens_of_batch);
  return operations / operations_per_second;
}

}  // namespace comera::compress
