#include "lib/compress/refine/refinement_needs.h"

#include <algorithm>

#include "lib/compress/refine/block_layers.h"
#include "lib/compress/refine/block_trainer.h"
#include "lib/compress/refine/where_it_pays.h"
#include "lib/core/error.h"
#include "models/lone_block.h"

namespace comera::compress {
namespace {

// Numbers of a batch beside the plan, per token and number of the residual stream: input and target, and outputs in
// double and in float. Where blocks norm their inputs, the normed stream is beside it.
std::uint64_t bytes_per_number(bool norms_inputs) {
  const std::uint64_t flows = norms_inputs ? 2 : 1;
  return (2 + flows - 1) * sizeof(float) + flows * (sizeof(double) + sizeof(float));
}

const data::Batch& largest_batch(const BlockFlows& flows) {
  const auto& largest = *std::ranges::max_element(flows.batches(), {}, [](const TextBatch& text) {
    return std::pair(text.batch.sequences * text.batch.length, text.batch.length);
  });
  return largest.batch;
}

}  // namespace

std::uint64_t bytes_of_block(const plan::Machine& machine, const models::ModelSpec& spec, std::int64_t block,
                             const std::map<std::string, io::ChainSpec>& chains, const data::Batch& text) {
  models::ModelSpec formed = spec;
  models::Spec& common = models::common(formed);
  common.forms.clear();
  for (const std::string& linear : linears_of_block(spec, block)) {
    const auto chain = chains.find(linear);
    common.forms[linear] = form_in_block(chain == chains.end() ? nullptr : &chain->second);
  }
  const auto engine = engine_of_block(machine, formed, block, std::make_shared<BlockUpdateRule>());
  const data::Batch batch = engine->model().planning_batch(text.sequences, text.length, 0);
  engine->plan_training(batch);
  engine->plan_evaluation(batch);
  std::uint64_t grids = 0, expanded = 0;
  for (const layers::Parameter& parameter : engine->model().parameters().all()) {
    if (!BlockUpdateRule::is_on_grid(parameter)) continue;
    const io::ChainSpec& chain = chains.at(layer_of(parameter));
    grids += quant::TrainedGrid::bytes(*chain.base, parameter.shape[0], parameter.shape[1]);
    expanded = std::max(expanded, sizeof(float) * static_cast<std::uint64_t>(parameter.shape.elements()));
  }
  const auto numbers = static_cast<std::uint64_t>(text.sequences * text.length * common.hidden);
  return engine->planned_bytes() + grids + expanded + numbers * bytes_per_number(models::norms_inputs(spec));
}

std::map<std::string, const LayerJob*> by_layer(const std::vector<LayerJob>& jobs) {
  std::map<std::string, const LayerJob*> by_name;
  for (const LayerJob& job : jobs) by_name[job.candidate.name] = &job;
  return by_name;
}

std::map<std::string, io::ChainSpec> chains_of_block(const models::ModelSpec& spec, std::int64_t block,
                                                     const std::map<std::string, const LayerJob*>& jobs,
                                                     std::size_t size) {
  std::map<std::string, io::ChainSpec> chains;
  for (const std::string& linear : linears_of_block(spec, block)) {
    const auto job = jobs.find(linear);
    if (job == jobs.end()) continue;
    if (const std::optional<io::ChainSpec> chain = job->second->chain(size)) chains.emplace(linear, *chain);
  }
  return chains;
}

bool is_refined(const std::map<std::string, io::ChainSpec>& chains, Refinement::When when) {
  return std::ranges::any_of(chains, [&](const auto& chain) { return is_trained(chain.second, when); });
}

std::uint64_t refinement_bytes(const BlockFlows& flows, const std::vector<LayerJob>& jobs, Refinement::When when) {
  const auto by_name = by_layer(jobs);
  const std::size_t sizes = jobs.empty() ? 0 : jobs.front().sizes.size();
  const data::Batch& text = largest_batch(flows);
  std::uint64_t most = 0;
  for (std::size_t size = 0; size < sizes; ++size)
    for (std::int64_t block = 0; block < models::common(flows.spec()).layers; ++block) {
      const auto chains = chains_of_block(flows.spec(), block, by_name, size);
      if (is_refined(chains, when))
        most = std::max(most, bytes_of_block(flows.machine(), flows.spec(), block, chains, text));
    }
  return most;
}

}  // namespace comera::compress
