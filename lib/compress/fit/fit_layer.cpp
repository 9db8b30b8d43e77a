#include "lib/compress/fit/fit_layer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "lib/compress/fit/grid_fit.h"
#include "lib/compress/fit/stored_cores.h"
#include "lib/core/error.h"
#include "lib/core/hash.h"
#include "lib/core/process.h"

namespace comera::compress {
namespace {

using TensorBytes = std::vector<std::vector<std::byte>>;

// The bytes of a chain's tensors in the order of tensors_of(), of those of its cores and of its exact rows.
TensorBytes stored_bytes_of(TensorBytes cores, const tt::Chain& chain, std::vector<std::byte> exact_rows) {
  TensorBytes all = std::move(cores);
  for (const std::vector<std::int32_t>* indices : {&chain.order, &chain.gauge, &chain.exact_ids}) {
    if (indices->empty()) continue;
    const auto* bytes = reinterpret_cast<const std::byte*>(indices->data());
    all.emplace_back(bytes, bytes + indices->size() * sizeof(std::int32_t));
  }
  if (!exact_rows.empty()) all.push_back(std::move(exact_rows));
  return all;
}

// Bitwise copies from the dense tensor.
std::vector<std::byte> exact_rows_of(const tt::Chain& chain, io::StoredType type, std::span<const std::byte> dense) {
  const std::size_t row_bytes = static_cast<std::size_t>(chain.layout.columns()) * io::size_of(type);
  std::vector<std::byte> rows;
  for (const std::int32_t id : chain.exact_ids) {
    const auto row = dense.subspan(static_cast<std::size_t>(id) * row_bytes, row_bytes);
    rows.insert(rows.end(), row.begin(), row.end());
  }
  return rows;
}

LayerOutcome dense_outcome(const Candidate& candidate, const std::string& reason) {
  LayerOutcome outcome;
  outcome.name = candidate.name;
  outcome.table = candidate.table, outcome.bare = candidate.bare();
  outcome.shape = candidate.shape;
  outcome.parameters = outcome.parameters_dense = candidate.elements();
  outcome.bytes = outcome.bytes_dense = candidate.bytes();
  outcome.reason = reason;
  return outcome;
}

std::string hash_of(const TensorBytes& all) {
  Hasher hasher;
  for (const std::vector<std::byte>& bytes : all) hasher.update(bytes.data(), bytes.size());
  return hasher.hex();
}

// Fits the chain of a plan, rounds it to the stored type and measures it. Its bytes go to `stored`.
LayerOutcome fit(const LayerFactors& factors, const LayerPlan& plan, const Candidate& candidate,
                 std::span<const std::byte> dense, TensorBytes& stored) {
  tt::Chain chain = factors.fit(plan);
  LayerOutcome outcome = dense_outcome(candidate, "");
  outcome.chain = describe(chain, candidate);
  outcome.chain->cores = plan.cores;
  if (plan.cores) balance_columns(chain);
  TensorBytes cores = store_cores(chain, *outcome.chain, candidate.type);
  tt::check_chain(chain, fmt::format("[tensorize] {} as {}", candidate.name, io::name_of(candidate.type)));
  outcome.form = io::form_name(*outcome.chain);
  outcome.parameters = tt::stored_numbers(chain);
  outcome.bytes = chain_bytes(*outcome.chain, candidate.type);
  factors.measure(chain, outcome);
  stored = stored_bytes_of(std::move(cores), chain, exact_rows_of(chain, candidate.type, dense));
  outcome.chain_hash = hash_of(stored);
  return outcome;
}

void require_finite_rows(const tt::Chain& chain, const std::string& name) {
  for (std::size_t i = 0; i < chain.exact_rows.size(); ++i)
    if (!std::isfinite(chain.exact_rows[i]))
      fail_input(
          "[tensorize] {}: row {} has a number beyond half precision, the type of exact rows beside bits; leave its "
          "exact rows out, --layer '{}=exact:0'",
          name, chain.exact_ids[i / static_cast<std::size_t>(chain.layout.columns())], name);
}

// The same for a plan on a grid.
LayerOutcome fit_grid(const tt::Matrix& weight, const Evidence& evidence, const LayerPlan& plan,
                      const Candidate& candidate, TensorBytes& stored) {
  const bool moved = evidence.inputs && evidence.inputs->moved();
  const tt::Matrix target = moved ? target_of(weight, *evidence.inputs) : tt::Matrix();
  // The training corrects the error in the residual stream better than the fit does.
  const bool corrects = moved && !(evidence.trained_after && evidence.trained_after(plan));
  GridFit fit = fit_on_grid(candidate, corrects ? target : weight, evidence, plan);
  LayerOutcome outcome = dense_outcome(candidate, "");
  outcome.chain = describe(fit.correction, candidate);
  outcome.chain->base = plan.grid;
  if (plan.rank > 0) outcome.chain->cores = plan.cores;
  for (std::int64_t& rank : outcome.chain->initial_ranks) rank = std::max<std::int64_t>(rank, 1);
  outcome.form = io::form_name(*outcome.chain);
  outcome.parameters = candidate.elements() + tt::stored_numbers(fit.correction);
  outcome.bytes = chain_bytes(*outcome.chain, candidate.type);
  std::vector<std::byte> exact_rows = store_exact_rows(fit.correction, core_type(*outcome.chain, candidate.type));
  require_finite_rows(fit.correction, candidate.name);
  stored = stored_bytes_of(std::move(fit.correction_bytes), fit.correction, std::move(exact_rows));
  stored.insert(stored.begin(), fit.base.bytes);
  Evidence measured = evidence;
  if (candidate.also_decodes) measured.inputs = nullptr;  // the certificate of a word table is that of its rows
  measure_fit(candidate, weight, moved ? target : weight, std::move(fit), measured, outcome);
  if (!std::isfinite(outcome.rel_error))
    fail_input(
        "[tensorize] {}: as {} its scales are beyond half precision, their type; let it stay dense, "
        "--layer '{}=form:dense'",
        candidate.name, outcome.form, candidate.name);
  outcome.chain_hash = hash_of(stored);
  return outcome;
}

std::int64_t largest_rank(const LayerJob& job, const std::vector<std::size_t>& sizes) {
  std::int64_t largest = 0;
  for (const std::size_t size : sizes) largest = std::max(largest, job.sizes[size].plan.rank);
  return largest;
}

}  // namespace

bool take_finished(LayerJob& job, std::size_t size, const WorkFolder& work) {
  LayerAtSize& at = job.sizes[size];
  if (at.dense()) {
    at.outcome = dense_outcome(job.candidate, at.plan.reason);
    return true;
  }
  at.outcome = work.finished(size, job.number);
  if (at.outcome) at.file = work.layer_path(size, job.number);
  return at.outcome.has_value();
}

void fit_layer(LayerJob& job, const std::vector<std::size_t>& sizes, const Evidence& evidence,
               const io::ModelFolder& folder, WorkFolder& work) {
  const Candidate& candidate = job.candidate;
  const double start = wall_seconds();
  const io::ModelFolder::Entry& entry = *folder.find(candidate.tensor);
  const std::string weight_hash = hash_bytes(folder.file_of(entry).bytes(entry.tensor).span());
  const auto on_grid = [&](std::size_t size) { return job.sizes[size].plan.form == PlannedForm::grid; };
  std::optional<LayerFactors> factors;
  tt::Matrix alone;
  if (std::all_of(sizes.begin(), sizes.end(), on_grid))
    alone = read_weight(folder, candidate);
  else
    factors.emplace(candidate, read_weight(folder, candidate), evidence, largest_rank(job, sizes));
  const tt::Matrix& weight = factors ? factors->weight() : alone;
  const double shared = (wall_seconds() - start) / static_cast<double>(sizes.size());
  for (const std::size_t size : sizes) {
    const double own = wall_seconds();
    LayerAtSize& at = job.sizes[size];
    TensorBytes stored;
    LayerOutcome outcome =
        on_grid(size) ? fit_grid(weight, evidence, at.plan, candidate, stored)
                      : fit(*factors, at.plan, candidate, folder.file_of(entry).bytes(entry.tensor).span(), stored);
    outcome.weight_hash = weight_hash;
    outcome.ms = 1000 * (shared + wall_seconds() - own);
    std::vector<io::TensorToWrite> tensors = tensors_of(*outcome.chain, candidate.type);
    for (std::size_t k = 0; k < tensors.size(); ++k) tensors[k].data = stored[k].data();
    work.save(size, job.number, outcome, tensors);
    at.outcome = std::move(outcome);
    at.file = work.layer_path(size, job.number);
  }
}

namespace {

tt::Chain stored_chain(const LayerAtSize& at) {
  const io::ModelFolder stored(at.file);
  return tt::to_double(io::read_chain(stored, *at.outcome->chain, {}));
}

}  // namespace

tt::Matrix fitted_matrix(const LayerJob& job, std::size_t size) {
  const LayerAtSize& at = job.sizes[size];
  return tt::to_double(io::read_matrix(io::ModelFolder(at.file), *at.outcome->chain, {}));
}

tt::Pair fitted_factors(const LayerJob& job, std::size_t size) { return tt::factors(stored_chain(job.sizes[size])); }

void follow(InputMoments& moments, const LayerJob& job, std::size_t size, std::size_t as) {
  const std::optional<io::ChainSpec>& chain = job.sizes[size].outcome->chain;
  if (!chain) return;
  if (job.candidate.table || chain->base)
    moments.replace(job.candidate.name, fitted_matrix(job, size), as);
  else
    moments.replace(job.candidate.name, fitted_factors(job, size), as);
}

}  // namespace comera::compress
