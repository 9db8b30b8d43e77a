#include "lib/compress/plan/allotting.h"

#include <algorithm>
#include <cmath>

#include "lib/compress/fit/measuring.h"
#include "lib/core/error.h"

namespace comera::compress {
namespace {

// A share of the squared norm. A table that loses more gives later layers inputs that are too far from the dense ones.
constexpr double largest_table_loss = 0.4;

[[noreturn]] void fail_small(const Request& request, std::uint64_t budget, std::uint64_t least) {
  const auto dense = static_cast<double>(request.counted.dense_bytes());
  fail_input(
      "[tensorize] {}: {} bytes are wanted, but with {} everywhere {} are left, a ratio of {:.2f}; that is the most "
      "for these weights",
      request.folder.path(), budget, request.settings.grids.empty() ? "rank 1" : "the fewest bits", least,
      std::floor(100 * dense / static_cast<double>(least)) / 100);
}

// The plan with the fewest bytes that the rules allow.
LayerPlan smallest_plan(const LayerJob& job, const Settings& settings) {
  LayerPlan plan = *job.first;
  if (job.ruled_dense()) return plan;
  if (plan.form == PlannedForm::grid) {
    const auto bytes = [](quant::Grid grid) { return quant::line_bytes(grid, quant::largest_group); };
    for (const quant::Grid grid : settings.grids)
      if (!plan.fixed_grid && bytes(grid) < bytes(plan.grid)) plan.grid = grid;
    return plan;
  }
  if (plan.rank > 0) return plan;
  plan.rank = 1;
  if (planned_bytes(plan, job.candidate) >= job.candidate.bytes()) plan.form = PlannedForm::keep_dense;
  return plan;
}

// Sets rank, form and reason of the layer at its newest size.
void settle(LayerJob& job, const tt::Allotment& allotment) {
  const Candidate& candidate = job.candidate;
  LayerPlan& plan = job.sizes.back().plan = *job.first;
  if (!allotment.dense && !job.menu.empty()) {
    plan = job.menu[static_cast<std::size_t>(allotment.rank) - 1];
    return;
  }
  if (!allotment.dense) {
    plan.rank = allotment.rank;
    return;
  }
  plan.form = PlannedForm::keep_dense;
  if (!job.menu.empty()) {
    plan.reason = "no grid of --bits is needed for this size";
    return;
  }
  if (plan.layout.exact_rows > 0) {
    plan.reason = fmt::format("with {} exact rows it would be larger than dense {} x {}", plan.layout.exact_rows,
                              candidate.in(), candidate.out());
    plan.layout.exact_rows = 0;
    return;
  }
  plan.reason = fmt::format("above rank {} it would be {} than dense {} x {}",
                            job.curve->largest_rank > 0 ? job.curve->largest_rank : break_even_rank(candidate),
                            candidate.table ? "larger" : "slower or larger", candidate.in(), candidate.out());
}

// Allots one size, the newest of every job.
class Allotting {
 public:
  Allotting(std::vector<LayerJob>& jobs, const Request& request)
      : jobs_(jobs), request_(request), size_(jobs.front().sizes.size()) {
    for (LayerJob& job : jobs_) {
      job.sizes.push_back({.plan = *job.first});
      if (job.ruled_dense()) continue;
      open_.push_back(&job);
      curves_.push_back(*job.curve);
    }
  }

  // Dense if that is smaller or faster.
  void by_rank(std::int64_t rank) {
    require_rank(rank);
    for (LayerJob* job : open_) {
      const Candidate& candidate = job->candidate;
      LayerPlan plan = *job->first;
      const bool ruled = plan.rank > 0;
      if (!ruled) plan.rank = std::min(rank, std::min(candidate.in(), candidate.out()));
      if (plan.form == PlannedForm::grid) {
        if (candidate.table || !request_.calibrated()) plan.rank = 0;  // corrections are fitted to inputs
        const bool larger = !ruled && planned_bytes(plan, candidate) >= candidate.bytes();
        settle(*job, {larger, plan.rank, 0, 0});
        if (larger && plan.layout.exact_rows == 0)
          job->sizes[size_].plan.reason =
              fmt::format("{} it would be larger than dense {} x {}",
                          plan.rank == 0 ? "on this grid" : fmt::format("with a correction of rank {}", plan.rank),
                          candidate.in(), candidate.out());
        continue;
      }
      const bool slower = plan.rank > break_even_rank(candidate) && !request_.settings.allow_slower;
      const bool dense = !ruled && (slower || planned_bytes(plan, candidate) >= candidate.bytes());
      settle(*job, {dense, plan.rank, 0, 0});
    }
  }

  void by_tolerance(double tolerance) {
    settle_all(tt::by_tolerance(curves_, tolerance));
    for (LayerJob* job : open_)
      if (LayerPlan& plan = job->sizes[size_].plan; plan.form == PlannedForm::keep_dense && !job->menu.empty())
        plan.reason = fmt::format("no grid of --bits has an error within --tol {:g}; 8 bits have the least", tolerance);
  }

  // Allots the rest of `budget` to the layers, repeatedly, until the whole file fits.
  void by_budget(std::uint64_t budget) {
    const tt::Allocation smallest = tt::by_rank(curves_, 1);
    settle_all(smallest);
    const std::uint64_t least = file_bytes();
    if (least > budget) fail_small(request_, budget, least);
    std::int64_t layers_budget = static_cast<std::int64_t>(budget) - static_cast<std::int64_t>(least) + smallest.bytes;
    for (int round = 0;; ++round) {
      layers_budget = std::max(layers_budget, tt::smallest_bytes(curves_));
      share(layers_budget);
      const std::uint64_t bytes = file_bytes();
      if (bytes <= budget || round == 8) return;
      layers_budget -= static_cast<std::int64_t>(bytes - budget);  // headers are longer than those of rank 1
    }
  }

 private:
  // A layer with fewer rows or columns takes the largest rank that it can have.
  void require_rank(std::int64_t rank) const {
    std::int64_t largest = 0;
    for (const LayerJob* job : open_) largest = std::max(largest, std::min(job->candidate.in(), job->candidate.out()));
    if (!open_.empty() && rank > largest)
      fail_input("[tensorize] --rank {}: no weight has a rank above {}; use a smaller one", rank, largest);
  }

  std::uint64_t file_bytes() const { return planned_bytes(request_.counted, jobs_, size_, request_.calibrated()); }

  void settle_all(const tt::Allocation& allocation) {
    auto allotment = allocation.layers.begin();
    for (LayerJob* job : open_) settle(*job, *allotment++);
  }

  // Shares `budget` among the layers and sets the reasons of layers that stay dense.
  void share(std::int64_t budget) {
    const Settings& settings = request_.settings;
    if (settings.uniform || !uses_spectra(jobs_, request_)) return settle_all(tt::by_share(curves_, budget));
    const std::optional<tt::Allocation> paid = paid_by_tables(budget);
    if (!paid) return settle_all(tt::water_fill(curves_, budget, settings.floor));
    settle_all(*paid);
    if (!any_chain(jobs_, size_)) return;
    for (LayerJob* job : open_)
      if (LayerPlan& plan = job->sizes[size_].plan; plan.form == PlannedForm::keep_dense)
        plan.reason = "smaller embeddings alone meet this size";
  }

  // Without calibration text: if smaller tables alone meet the budget, all linear layers stay dense. Empty if a linear
  // layer would also have to be compressed, or if a table would lose more than largest_table_loss of its squared norm.
  // No layer goes below its floor.
  std::optional<tt::Allocation> paid_by_tables(std::int64_t budget) const {
    if (request_.calibrated() || !request_.settings.grids.empty()) return std::nullopt;
    std::vector<tt::LossCurve> curves = curves_;
    for (std::size_t l = 0; l < open_.size(); ++l)
      if (open_[l]->candidate.table) curves[l].weight = 1e-9;
    tt::Allocation allocation = tt::water_fill(curves, budget, request_.settings.floor);
    auto allotment = allocation.layers.begin();
    for (const LayerJob* job : open_) {
      const tt::Allotment& own = *allotment++;
      if (job->candidate.table ? own.loss > largest_table_loss : !own.dense) return std::nullopt;
    }
    return allocation;
  }

  std::vector<LayerJob>& jobs_;
  const Request& request_;
  std::size_t size_;
  std::vector<LayerJob*> open_;        // layers that no rule keeps dense
  std::vector<tt::LossCurve> curves_;  // of them, side by side for lib/tt
};

}  // namespace

void require_possible(std::vector<LayerJob>& jobs, const Request& request) {
  const auto budgets = request.settings.goal.size_budgets(request.counted.dense_bytes());
  if (!budgets.front()) return;
  const std::size_t size = jobs.front().sizes.size();
  for (LayerJob& job : jobs) job.sizes.push_back({.plan = smallest_plan(job, request.settings)});
  const std::uint64_t least = planned_bytes(request.counted, jobs, size, request.calibrated());
  for (LayerJob& job : jobs) job.sizes.pop_back();
  for (const std::optional<std::uint64_t>& budget : budgets)
    if (least > *budget) fail_small(request, *budget, least);
}

void allot_size(std::vector<LayerJob>& jobs, const Request& request, std::optional<std::uint64_t> budget) {
  const Goal& goal = request.settings.goal;
  Allotting allotting(jobs, request);
  if (budget) return allotting.by_budget(*budget);
  if (goal.rank) return allotting.by_rank(*goal.rank);
  allotting.by_tolerance(goal.tolerance.value());
}

}  // namespace comera::compress
