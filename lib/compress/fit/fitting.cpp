#include "lib/compress/fit/fitting.h"

#include <algorithm>
#include <map>

#include "lib/compress/fit/fit_layer.h"
#include "lib/compress/plan/exact_rows.h"
#include "lib/core/terminal/stop.h"
#include "lib/core/terminal/task_progress.h"

namespace comera::compress {
namespace {

// The order in which layers are fitted. Without text each layer is fitted at all sizes at once. With text each size
// follows its own compressed layers; layers whose inputs are the same at all sizes are still fitted at once.
class Fitting {
 public:
  Fitting(std::vector<LayerJob>& jobs, const FitInputs& inputs, WorkFolder& work)
      : jobs_(jobs),
        inputs_(inputs),
        work_(work),
        count_(jobs.front().sizes.size()),
        end_(count_),
        task_("fitting layers", std::ssize(jobs) * static_cast<std::int64_t>(count_)) {
    for (LayerJob& job : jobs_) by_name_[job.candidate.name] = &job;
  }

  void run() {
    if (!inputs_.moments || !inputs_.sequential) return fit_part(Part::all);
    // The tables, and the first block if all tables stay dense, have the same inputs at all sizes.
    fit_tables();
    const bool shares_first = std::none_of(jobs_.begin(), jobs_.end(),
                                           [&](const LayerJob& job) { return job.candidate.table && is_cut(job); });
    if (shares_first) fit_on_text(Part::first);
    one_size_ = true;
    for (std::size_t size = 0; size < count_; ++size) {
      begin_ = size, end_ = size + 1;
      for (const LayerJob& job : jobs_)
        if (job.sizes[size].outcome) follow(job, size);
      fit_part(shares_first ? Part::later : Part::all);
      inputs_.moments->restore();
    }
  }

 private:
  // True if the layer becomes a chain at one of the sizes that are fitted now.
  bool is_cut(const LayerJob& job) const {
    for (std::size_t size = begin_; size < end_; ++size)
      if (!job.sizes[size].dense()) return true;
    return false;
  }

  void fit_part(Part part) {
    if (inputs_.moments) {
      fit_tables();
      fit_on_text(part);
    }
    for (LayerJob& job : jobs_) fit(job, {});  // layers that calibration does not reach
  }

  void fit_tables() {
    for (LayerJob& job : jobs_)
      if (job.candidate.table) fit(job, table_evidence(inputs_.moments, job.candidate, exact_rows_of(job)));
  }

  void fit_on_text(Part part) {
    const auto wanted = [&](const std::string& name) {
      const auto found = by_name_.find(name);
      return found != by_name_.end() && is_cut(*found->second);
    };
    inputs_.moments->visit({inputs_.sequential, part, wanted}, [&](const MomentGroup& group) {
      for (const std::string& name : group.layers)
        if (const auto found = by_name_.find(name); found != by_name_.end()) fit(*found->second, {&group, {}});
    });
  }

  // The same number at every size that cuts the table.
  static std::int64_t exact_rows_of(const LayerJob& job) {
    std::int64_t exact = 0;
    for (const LayerAtSize& at : job.sizes) exact = std::max(exact, at.plan.layout.exact_rows);
    return exact;
  }

  // Fits the layer at the current sizes at which it is not fitted yet.
  void fit(LayerJob& job, Evidence evidence) {
    std::vector<std::size_t> open, to_fit;
    for (std::size_t size = begin_; size < end_; ++size)
      if (!job.sizes[size].outcome) open.push_back(size);
    if (open.empty()) return;
    check_stop();
    const TaskProgress task(job.candidate.name);
    for (const std::size_t size : open)
      if (!take_finished(job, size, work_)) to_fit.push_back(size);
    if (!to_fit.empty()) fit_layer(job, to_fit, std::move(evidence), inputs_.folder, work_);
    for (const std::size_t size : open) {
      task_.advance();
      if (one_size_) follow(job, size);
    }
  }

  // Later layers read the outputs of the stored layer.
  void follow(const LayerJob& job, std::size_t size) {
    if (job.sizes[size].outcome->chain) inputs_.moments->replace(job.candidate.name, fitted_weight(job, size));
  }

  std::vector<LayerJob>& jobs_;
  FitInputs inputs_;
  WorkFolder& work_;
  std::map<std::string, LayerJob*> by_name_;
  std::size_t count_, begin_ = 0, end_;  // all sizes; the sizes that are fitted now
  bool one_size_ = false;                // later layers follow the layers of one size
  TaskProgress task_;
};

}  // namespace

void fit_layers(std::vector<LayerJob>& jobs, const FitInputs& inputs, WorkFolder& work) {
  for (LayerJob& job : jobs)
    for (LayerAtSize& at : job.sizes) at.outcome.reset();  // of an interrupted call
  Fitting(jobs, inputs, work).run();
}

}  // namespace comera::compress
