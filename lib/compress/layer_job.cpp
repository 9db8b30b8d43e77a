#include "lib/compress/layer_job.h"

#include <algorithm>

namespace comera::compress {

std::optional<io::ChainSpec> LayerJob::chain(std::size_t size) const {
  const LayerAtSize& at = sizes[size];
  if (at.outcome) return at.outcome->chain;
  return at.dense() ? std::nullopt : std::optional(chain_of(at.plan, candidate));
}

bool LayerJob::reads_inputs() const {
  if (!candidate.table) return true;
  const auto is_no_chain = [](const LayerPlan& plan) {
    return plan.form == PlannedForm::grid || plan.form == PlannedForm::keep_dense;
  };
  return candidate.decodes && (!first || is_no_chain(*first)) &&
         std::all_of(sizes.begin(), sizes.end(), [&](const LayerAtSize& at) { return is_no_chain(at.plan); });
}

bool LayerJob::on_grid() const {
  const auto is_grid = [](const LayerPlan& plan) { return plan.form == PlannedForm::grid; };
  if (first) return is_grid(*first);
  return std::any_of(sizes.begin(), sizes.end(), [&](const LayerAtSize& at) { return is_grid(at.plan); });
}

std::vector<LayerJob> find_jobs(const io::ModelFolder& folder, const Choice& choice) {
  std::vector<LayerJob> jobs;
  for (Candidate& candidate : find_candidates(folder, choice))
    jobs.push_back({.number = jobs.size(), .candidate = std::move(candidate)});
  return jobs;
}

std::vector<io::ChainSpec> chains_at(const std::vector<LayerJob>& jobs, std::size_t size) {
  std::vector<io::ChainSpec> chains;
  for (const LayerJob& job : jobs)
    if (std::optional<io::ChainSpec> chain = job.chain(size)) chains.push_back(std::move(*chain));
  return chains;
}

std::vector<LayerOutcome> outcomes_at(const std::vector<LayerJob>& jobs, std::size_t size) {
  std::vector<LayerOutcome> outcomes;
  for (const LayerJob& job : jobs) outcomes.push_back(job.sizes[size].outcome.value());
  return outcomes;
}

bool any_chain(const std::vector<LayerJob>& jobs, std::size_t size) {
  return std::any_of(jobs.begin(), jobs.end(), [&](const LayerJob& job) { return !job.sizes[size].dense(); });
}

}  // namespace comera::compress
