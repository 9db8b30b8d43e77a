#include "lib/compress/run_plans.h"

#include <algorithm>
#include <map>

#include "lib/compress/hot_rows.h"
#include "lib/core/error.h"
#include "lib/core/hash.h"
#include "lib/core/process.h"
#include "lib/core/stop.h"
#include "lib/core/task_progress.h"

namespace comera::compress {
namespace {

// The bytes of a chain's tensors in the order of tensors_of(). Exact rows are bitwise copies from the dense tensor.
std::vector<std::vector<std::byte>> stored_bytes_of(const tt::Chain& chain, io::StoredType type,
                                                    std::span<const std::byte> dense) {
  std::vector<std::vector<std::byte>> all;
  for (const std::vector<double>& core : chain.cores) {
    const std::vector<float> values(core.begin(), core.end());
    io::from_floats(values, type, all.emplace_back(values.size() * io::size_of(type)));
  }
  for (const std::vector<std::int32_t>* indices : {&chain.order, &chain.gauge, &chain.exact_ids}) {
    if (indices->empty()) continue;
    const auto* bytes = reinterpret_cast<const std::byte*>(indices->data());
    all.emplace_back(bytes, bytes + indices->size() * sizeof(std::int32_t));
  }
  if (chain.exact_ids.empty()) return all;
  std::vector<std::byte>& rows = all.emplace_back();
  const std::size_t row_bytes = static_cast<std::size_t>(chain.layout.columns()) * io::size_of(type);
  for (const std::int32_t id : chain.exact_ids) {
    const auto row = dense.subspan(static_cast<std::size_t>(id) * row_bytes, row_bytes);
    rows.insert(rows.end(), row.begin(), row.end());
  }
  return all;
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

// One run over all plans of a Tensorizer.
class Runner {
 public:
  Runner(const PlansToRun& all, WorkFolder& work)
      : folder_(all.folder),
        candidates_(all.candidates),
        plans_(all.plans),
        moments_(all.moments),
        sequential_(all.sequential),
        work_(work),
        outcomes_(plans_.size(), std::vector<LayerOutcome>(candidates_.size())),
        done_(plans_.size() * candidates_.size()),
        task_("fitting layers", std::ssize(done_)) {
    for (std::size_t i = 0; i < candidates_.size(); ++i) by_name_[candidates_[i].name] = i;
  }

  // Returns the outcome of every layer of every plan.
  std::vector<std::vector<LayerOutcome>> run() && {
    every_plan_ = true;
    if (!moments_ || !sequential_) {
      visit(Part::all);
      return std::move(outcomes_);
    }
    // Work that is the same in all plans is done once: the tables, and the first block if all tables stay dense.
    tables();
    const bool shares_first =
        std::none_of(plans_.begin(), plans_.end(), [&](const Planned& planned) { return cuts_table(planned.plan); });
    if (shares_first) visit_moments(Part::first);
    every_plan_ = false;
    for (plan_ = 0; plan_ < plans_.size(); ++plan_) {
      for (std::size_t i = 0; i < candidates_.size(); ++i)
        if (done_[plan_ * candidates_.size() + i]) follow(plan_, i);
      visit(shares_first ? Part::later : Part::all);
      moments_->restore();
    }
    return std::move(outcomes_);
  }

 private:
  bool cuts_table(const Plan& plan) const {
    for (std::size_t i = 0; i < candidates_.size(); ++i)
      if (candidates_[i].table && plan.layers[i].form != PlannedForm::keep_dense) return true;
    return false;
  }

  void tables() {
    for (std::size_t i = 0; i < candidates_.size(); ++i)
      if (candidates_[i].table) layer(i, table_evidence(moments_, candidates_[i], exact_rows_of(i)));
  }

  // True if a plan that is measured now cuts the candidate.
  bool any_plan_cuts(std::size_t i) const {
    const auto cuts = [&](const Planned& planned) { return planned.plan.layers[i].form != PlannedForm::keep_dense; };
    return every_plan_ ? std::any_of(plans_.begin(), plans_.end(), cuts) : cuts(plans_[plan_]);
  }

  // The same number in every plan that cuts the table.
  std::int64_t exact_rows_of(std::size_t i) const {
    std::int64_t exact = 0;
    for (const Planned& planned : plans_) exact = std::max(exact, planned.plan.layers[i].layout.exact_rows);
    return exact;
  }

  void visit_moments(Part part) {
    const auto fitted = [&](const std::string& name) {
      const auto found = by_name_.find(name);
      return found != by_name_.end() && any_plan_cuts(found->second);
    };
    moments_->visit({sequential_, part, fitted}, [&](const MomentGroup& group) {
      for (const std::string& name : group.layers)
        if (const auto found = by_name_.find(name); found != by_name_.end()) layer(found->second, {&group, {}});
    });
  }

  void visit(Part part) {
    if (moments_) {
      tables();
      visit_moments(part);
    }
    for (std::size_t i = 0; i < candidates_.size(); ++i) layer(i, {});  // layers that calibration does not reach
  }

  // Later layers read the outputs of the stored layer.
  void follow(std::size_t p, std::size_t i) {
    if (moments_ && sequential_ && outcomes_[p][i].chain) moments_->replace(candidates_[i].name, stored_weight(p, i));
  }

  void layer(std::size_t i, Evidence evidence) {
    std::vector<std::size_t> open;
    for (std::size_t p = every_plan_ ? 0 : plan_; p < (every_plan_ ? plans_.size() : plan_ + 1); ++p)
      if (!done_[p * candidates_.size() + i]) open.push_back(p);
    if (open.empty()) return;
    check_stop();
    const TaskProgress task(candidates_[i].name);
    std::vector<std::size_t> to_fit;
    for (const std::size_t p : open) {
      if (take_finished(p, i)) continue;
      to_fit.push_back(p);
    }
    if (!to_fit.empty()) fit(i, std::move(evidence), to_fit);
    for (const std::size_t p : open) {
      done_[p * candidates_.size() + i] = true;
      task_.advance();
      if (!every_plan_) follow(p, i);
    }
  }

  bool take_finished(std::size_t p, std::size_t i) {
    const LayerPlan& plan = plans_[p].plan.layers[i];
    if (plan.form == PlannedForm::keep_dense) {
      outcomes_[p][i] = dense_outcome(candidates_[i], plan.reason);
      return true;
    }
    std::optional<LayerOutcome> finished = work_.finished(p, i);
    if (finished) outcomes_[p][i] = std::move(*finished);
    return finished.has_value();
  }

  tt::Matrix stored_weight(std::size_t p, std::size_t i) const {
    const io::ModelFolder stored(work_.layer_path(p, i));
    tt::Matrix weight = tt::expand(tt::to_double(io::read_chain(stored, *outcomes_[p][i].chain, {})));
    return weight.rows > candidates_[i].in() ? tt::first_rows(weight, candidates_[i].in()) : weight;
  }

  void fit(std::size_t i, Evidence evidence, const std::vector<std::size_t>& open) {
    const Candidate& candidate = candidates_[i];
    const double start = wall_seconds();
    const io::ModelFolder::Entry& entry = *folder_.find(candidate.tensor);
    const std::string weight_hash = hash_bytes(folder_.file_of(entry).bytes(entry.tensor));
    std::int64_t largest = 0;
    for (const std::size_t p : open) largest = std::max(largest, plans_[p].plan.layers[i].rank);
    const LayerFactors factors(candidate, read_weight(folder_, candidate), std::move(evidence), largest);
    const double shared = (wall_seconds() - start) / static_cast<double>(open.size());
    for (const std::size_t p : open) {
      const double own = wall_seconds();
      const LayerPlan& plan = plans_[p].plan.layers[i];
      tt::Chain chain = factors.fit(plan);
      LayerOutcome& outcome = outcomes_[p][i];
      outcome = dense_outcome(candidate, "");
      outcome.weight_hash = weight_hash;
      store(chain, candidate, factors, outcome, p, i);
      outcome.ms = 1000 * (shared + wall_seconds() - own);
      save(p, i);
    }
  }

  void store(tt::Chain& chain, const Candidate& candidate, const LayerFactors& factors, LayerOutcome& outcome,
             std::size_t p, std::size_t i) {
    round_to(chain, candidate.type);
    tt::check_chain(chain, fmt::format("[tensorize] {} as {}", candidate.name, io::name_of(candidate.type)));
    outcome.chain = describe(chain, candidate);
    outcome.form = tt::form_name(outcome.chain->layout);
    outcome.parameters = tt::stored_numbers(chain);
    outcome.bytes = chain_bytes(*outcome.chain, candidate.type);
    factors.measure(chain, outcome);
    const io::ModelFolder::Entry& entry = *folder_.find(candidate.tensor);
    stored_ = stored_bytes_of(chain, candidate.type, folder_.file_of(entry).bytes(entry.tensor));
    Hasher hasher;
    for (const std::vector<std::byte>& bytes : stored_) hasher.update(bytes.data(), bytes.size());
    outcome.chain_hash = hasher.hex();
  }

  void save(std::size_t p, std::size_t i) {
    std::vector<io::TensorToWrite> tensors = tensors_of(*outcomes_[p][i].chain, candidates_[i].type);
    for (std::size_t k = 0; k < tensors.size(); ++k) tensors[k].data = stored_[k].data();
    work_.save(p, i, outcomes_[p][i], tensors);
    stored_.clear();
  }

  const io::ModelFolder& folder_;
  const std::vector<Candidate>& candidates_;
  const std::vector<Planned>& plans_;
  InputMoments* moments_;
  bool sequential_, every_plan_ = false;
  WorkFolder& work_;
  std::map<std::string, std::size_t> by_name_;
  std::vector<std::vector<LayerOutcome>> outcomes_;
  std::vector<bool> done_;
  TaskProgress task_;
  std::size_t plan_ = 0;
  std::vector<std::vector<std::byte>> stored_;  // of the current layer
};

}  // namespace

std::vector<std::vector<LayerOutcome>> run_plans(const PlansToRun& all, WorkFolder& work) {
  return Runner(all, work).run();
}

}  // namespace comera::compress
