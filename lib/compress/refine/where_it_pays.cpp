#include "lib/compress/refine/where_it_pays.h"

#include <optional>

#include "lib/compress/calibration/calibration_text.h"

namespace comera::compress {
namespace {

using When = Refinement::When;

constexpr double operations_per_second = 1.6e11;

bool is_trained(When when, bool has_ranks, std::optional<quant::Grid> grid) {
  if (when != When::where_it_pays) return when == When::always;
  return has_ranks || (grid && quant::bits_of(*grid) < 4);
}

}  // namespace

bool is_trained(const io::ChainSpec& chain, When when) { return is_trained(when, !chain.layout.empty(), chain.base); }

bool is_trained(const LayerPlan& plan, When when) {
  return is_trained(when, plan.form != PlannedForm::grid || plan.rank > 0, plan.grid);
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
