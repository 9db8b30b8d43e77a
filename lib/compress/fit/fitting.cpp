#include "lib/compress/fit/fitting.h"

#include <algorithm>
#include <map>
#include <span>

#include "lib/compress/fit/fit_layer.h"
#include "lib/compress/plan/exact_rows.h"
#include "lib/compress/refine/block_refiner.h"
#include "lib/compress/refine/where_it_pays.h"
#include "lib/core/terminal/stop.h"
#include "lib/core/terminal/task_progress.h"
#include "models/decoder/decoder_spec.h"

namespace comera::compress {
namespace {

constexpr std::int64_t widest = 2048;  // inputs; of wider layers only one is in memory

// The order in which layers are fitted. Without text each layer is fitted at all sizes at once. With text each size
// follows its own compressed layers: the layers of a block are fitted size by size. Layers whose inputs are the same at
// all sizes are still fitted at once.
class Fitting {
 public:
  Fitting(std::vector<LayerJob>& jobs, const FitInputs& inputs, WorkFolder& work)
      : jobs_(jobs),
        inputs_(inputs),
        work_(work),
        all_{0, jobs.front().sizes.size()},
        task_("fitting layers", std::ssize(jobs) * static_cast<std::int64_t>(all_.end)) {
    for (LayerJob& job : jobs_) by_name_[job.candidate.name] = &job;
    if (inputs.refinement.on()) refiner_.emplace(jobs, inputs.folder, *inputs.moments, inputs.refinement, work);
    refined_.resize(all_.end);
  }

  const std::vector<BlockOutcomes>& refined() const { return refined_; }

  void run() {
    if (!inputs_.moments) return fit_unreached(all_);
    fit_tables();
    if (!inputs_.sequential) {
      fit_on_text(Part::all);
      return fit_unreached(all_);
    }
    // The tables, and the first block if all tables stay dense, have the same inputs at all sizes.
    const bool shares_first = std::none_of(
        jobs_.begin(), jobs_.end(), [&](const LayerJob& job) { return !job.reads_inputs() && is_cut(job, all_); });
    if (shares_first) fit_on_text(Part::first);
    for (std::size_t size = 0; size < all_.end; ++size)
      for (const LayerJob& job : jobs_)
        if (job.sizes[size].outcome) follow(*inputs_.moments, job, size, size);
    for (std::size_t size = 0; shares_first && size < all_.end; ++size) refine(0, size);
    fit_size_by_size(shares_first ? Part::later : Part::all);
    for (std::size_t size = 0; size < all_.end; ++size) fit_unreached({size, size + 1});
    inputs_.moments->restore();
  }

 private:
  struct Sizes {
    std::size_t begin = 0, end = 0;
  };

  // True if the layer becomes a chain at one of these sizes.
  static bool is_cut(const LayerJob& job, Sizes sizes) {
    for (std::size_t size = sizes.begin; size < sizes.end; ++size)
      if (!job.sizes[size].dense()) return true;
    return false;
  }

  // By an interrupted run, at all sizes.
  bool is_stored(const LayerJob& job) const {
    for (std::size_t size = 0; size < all_.end; ++size)
      if (!job.sizes[size].dense() && !work_.finished(size, job.number)) return false;
    return true;
  }

  void fit_tables() {
    for (LayerJob& job : jobs_) {
      if (job.reads_inputs()) continue;
      Evidence evidence = table_evidence(inputs_.moments, job.candidate, exact_rows_of(job));
      if (job.candidate.also_decodes && job.on_grid() && !is_stored(job)) fit_words(job, evidence);
      fit(job, all_, evidence);
    }
  }

  // A word table that also decodes, with what the dense model's decoder reads. Nothing if no text reaches a decoder.
  void fit_words(LayerJob& job, Evidence evidence) {
    const auto decoder = [](const std::string& name, std::size_t) { return name == models::DecoderNames::head; };
    evidence.divergence = [&](const tt::Matrix& table) { return inputs_.moments->effect(job.candidate.name, table); };
    inputs_.moments->visit({.wants = decoder}, [&](const MomentGroup& group) {
      evidence.inputs = &group;
      fit(job, all_, evidence);
    });
  }

  // Fits the layers of this part at all sizes at once.
  void fit_on_text(Part part) {
    const auto wanted = [&](const std::string& name, std::size_t) {
      const LayerJob* job = find(name);
      return job && job->reads_inputs() && is_cut(*job, all_);
    };
    inputs_.moments->visit_together({inputs_.sequential, part, wanted},
                                    [&](std::span<const MomentGroup> groups) { fit_together(groups, all_); });
  }

  // Later layers of a size read the outputs of the stored layers of that size.
  void fit_size_by_size(Part part) {
    const auto wanted = [&](const std::string& name, std::size_t size) {
      const LayerJob* job = find(name);
      return job && job->reads_inputs() && !job->sizes[size].dense();
    };
    const auto refined = [&](std::size_t block, std::size_t size) { refine(block, size); };
    inputs_.moments->visit_together(
        {.follows = true, .part = part, .wants = wanted, .sizes = all_.end, .after_block = refined},
        [&](std::span<const MomentGroup> groups) {
          const std::size_t size = groups.empty() ? 0 : groups.front().size;
          for (const LayerJob* job : fit_together(groups, {size, size + 1})) follow(*inputs_.moments, *job, size, size);
        });
  }

  // Fits layers whose inputs are known, at the same time and the largest first. Returns those that were not fitted
  // before.
  std::vector<LayerJob*> fit_together(std::span<const MomentGroup> groups, Sizes sizes) {
    struct Task {
      LayerJob* job;
      const MomentGroup* group;
      std::int64_t cost() const { return job->candidate.in() * job->candidate.in() * job->candidate.out(); }
    };
    std::vector<Task> tasks;
    for (const MomentGroup& group : groups)
      for (const std::string& name : group.layers)
        if (LayerJob* job = find(name); job && is_open(*job, sizes)) tasks.push_back({job, &group});
    std::stable_sort(tasks.begin(), tasks.end(), [](const Task& a, const Task& b) { return a.cost() > b.cost(); });
    const auto fit_one = [&](std::int64_t i) {
      const Task& task = tasks[static_cast<std::size_t>(i)];
      fit(*task.job, sizes, {.inputs = task.group, .trained_after = refines()});
    };
    if (std::all_of(tasks.begin(), tasks.end(), [](const Task& task) { return task.group->fit.moment.rows <= widest; }))
      tt::each_apart(std::ssize(tasks), fit_one);
    else
      for (std::int64_t i = 0; i < std::ssize(tasks); ++i) tt::each_apart(1, [&](std::int64_t) { fit_one(i); });
    std::vector<LayerJob*> fitted;
    for (const Task& task : tasks) fitted.push_back(task.job);
    return fitted;
  }

  // Fits the layers that calibration does not reach.
  void fit_unreached(Sizes sizes) {
    for (LayerJob& job : jobs_) fit(job, sizes, {});
  }

  std::function<bool(const LayerPlan& plan)> refines() const {
    if (!inputs_.refinement.on()) return {};
    return [when = inputs_.refinement.when](const LayerPlan& plan) { return is_trained(plan, when); };
  }

  LayerJob* find(const std::string& name) const {
    const auto found = by_name_.find(name);
    return found != by_name_.end() ? found->second : nullptr;
  }

  // The same number at every size that cuts the table.
  static std::int64_t exact_rows_of(const LayerJob& job) {
    std::int64_t exact = 0;
    for (const LayerAtSize& at : job.sizes) exact = std::max(exact, at.plan.layout.exact_rows);
    return exact;
  }

  static bool is_open(const LayerJob& job, Sizes sizes) {
    for (std::size_t size = sizes.begin; size < sizes.end; ++size)
      if (!job.sizes[size].outcome) return true;
    return false;
  }

  // Fits the layer at those of the sizes at which it is not fitted yet.
  void fit(LayerJob& job, Sizes sizes, const Evidence& evidence) {
    std::vector<std::size_t> open, to_fit;
    for (std::size_t size = sizes.begin; size < sizes.end; ++size)
      if (!job.sizes[size].outcome) open.push_back(size);
    if (open.empty()) return;
    check_stop();
    const TaskProgress task(job.candidate.name);
    for (const std::size_t size : open)
      if (!take_finished(job, size, work_)) to_fit.push_back(size);
    if (!to_fit.empty()) fit_layer(job, to_fit, evidence, inputs_.folder, work_);
    task_.advance(std::ssize(open));
  }

  void refine(std::size_t block, std::size_t size) {
    if (!refiner_) return;
    if (std::optional<BlockOutcome> outcome = refiner_->refine(block, size)) refined_[size].push_back(*outcome);
  }

  std::vector<LayerJob>& jobs_;
  FitInputs inputs_;
  WorkFolder& work_;
  std::map<std::string, LayerJob*> by_name_;
  Sizes all_;
  TaskProgress task_;
  std::optional<BlockRefiner> refiner_;
  std::vector<BlockOutcomes> refined_;  // by size
};

}  // namespace

std::vector<BlockOutcomes> fit_layers(std::vector<LayerJob>& jobs, const FitInputs& inputs, WorkFolder& work) {
  for (LayerJob& job : jobs)
    for (LayerAtSize& at : job.sizes) at.outcome.reset();  // of an interrupted call
  Fitting fitting(jobs, inputs, work);
  fitting.run();
  return fitting.refined();
}

}  // namespace comera::compress
