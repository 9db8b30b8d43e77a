#include "lib/compress/fit/measuring.h"

#include <algorithm>
#include <map>

#include "lib/compress/fit/grid_fit.h"
#include "lib/compress/plan/exact_rows.h"
#include "lib/core/terminal/stop.h"
#include "lib/core/terminal/task_progress.h"
#include "lib/tt/low_rank.h"

namespace comera::compress {
namespace {

constexpr std::int64_t large = 2048;  // above it, the full spectrum of a layer takes longer than its factorisation

// Without spectra the error falls linearly with the rank.
std::vector<double> straight_losses(const Candidate& candidate) {
  const std::int64_t largest = std::min(candidate.in(), candidate.out());
  std::vector<double> losses(static_cast<std::size_t>(largest) + 1);
  for (std::int64_t r = 0; r <= largest; ++r)
    losses[static_cast<std::size_t>(r)] = static_cast<double>(largest - r) / static_cast<double>(largest);
  return losses;
}

void scale_bytes(tt::LossCurve& curve, std::size_t to, std::size_t from) {
  if (to == from) return;
  const auto scaled = [&](std::int64_t bytes) {
    return bytes * static_cast<std::int64_t>(to) / static_cast<std::int64_t>(from);
  };
  curve.dense_bytes = scaled(curve.dense_bytes);
  for (std::int64_t& bytes : curve.bytes) bytes = scaled(bytes);
}

// The bytes of the layer at every rank of `losses`, and the ranks that are allowed.
tt::LossCurve curve_of(const LayerPlan& plan, const Candidate& candidate, std::vector<double> losses,
                       bool allow_slower) {
  tt::LossCurve curve;
  curve.name = candidate.name;
  curve.losses = std::move(losses);
  curve.dense_bytes = static_cast<std::int64_t>(candidate.bytes());
  LayerPlan at = plan;
  curve.bytes.push_back(0);
  for (std::size_t rank = 1; rank < curve.losses.size(); ++rank) {
    at.rank = static_cast<std::int64_t>(rank);
    curve.bytes.push_back(static_cast<std::int64_t>(planned_bytes(at, candidate)));
  }
  // Table rows are looked up, not multiplied, so speed is no limit. A table's break-even rank limits only its bytes.
  if (!allow_slower || candidate.table) curve.largest_rank = std::max<std::int64_t>(1, break_even_rank(candidate));
  curve.multiple = std::min(candidate.in(), candidate.out()) >= 128 ? 8 : 1;
  return curve;
}

void add_curve(LayerJob& job, std::vector<double> losses, const Request& request) {
  const LayerPlan& first = *job.first;
  tt::LossCurve& curve =
      job.curve.emplace(curve_of(first, job.candidate, std::move(losses), request.settings.allow_slower));
  const io::StoredType type = job.candidate.type;
  scale_bytes(curve, request.counted.element_bytes(type), io::size_of(type));
  // The uniform baseline: steps of eight would leave a tenth of a small budget unused.
  if (request.settings.uniform) curve.multiple = 1;
  if (first.rank == 0) return;  // otherwise a rule sets the rank
  curve.smallest_rank = curve.largest_rank = first.rank;
  curve.may_be_dense = false;
  curve.multiple = 1;
}

// The ratio of the relative change of the model's output to the relative loss of the layer. Measured at a rank that
// loses about a tenth of the layer's squared norm.
std::optional<double> effect_of(const LayerJob& job, const LayerFactors& factors, const Request& request) {
  const std::vector<double>& losses = factors.losses();
  if (request.settings.goal.tolerance || losses[0] <= 0) return std::nullopt;
  std::size_t rank = 1;
  while (rank + 2 < losses.size() && losses[rank] > 0.1 * losses[0]) ++rank;
  if (losses[rank] <= 0) return std::nullopt;
  const std::optional<double> moved =
      request.moments->effect(job.candidate.name, factors.approximation(static_cast<std::int64_t>(rank)));
  return moved ? std::optional(*moved * losses[0] / losses[rank]) : std::nullopt;
}

// The forms that are no worse than any smaller one, by bytes.
std::vector<GridChoice> best_choices(std::vector<GridChoice> all, const Candidate& candidate) {
  std::stable_sort(all.begin(), all.end(), [&](const GridChoice& a, const GridChoice& b) {
    return planned_bytes(a.plan, candidate) < planned_bytes(b.plan, candidate);
  });
  std::vector<GridChoice> best;
  for (GridChoice& choice : all) {
    if (!best.empty() && choice.loss >= best.back().loss) continue;
    if (!best.empty() && planned_bytes(choice.plan, candidate) == planned_bytes(best.back().plan, candidate))
      best.pop_back();
    best.push_back(std::move(choice));
  }
  return best;
}

// Curve, menu and effect of a layer that is stored on a grid.
void measure_grids(LayerJob& job, const Evidence& evidence, const Request& request) {
  const Candidate& candidate = job.candidate;
  const tt::Matrix weight = read_weight(request.folder, candidate);
  const std::vector<quant::Grid> grids = job.first->fixed_grid ? std::vector{job.first->grid} : request.settings.grids;
  const GridMenu menu = grid_menu(candidate, weight, evidence, *job.first, grids, request.settings.corrections);
  tt::LossCurve& curve = job.curve.emplace();
  curve.name = candidate.name;
  curve.dense_bytes = static_cast<std::int64_t>(candidate.bytes());
  curve.losses = {menu.norm};
  curve.bytes = {0};
  curve.menu = true;
  for (const GridChoice& choice : best_choices(menu.choices, candidate)) {
    job.menu.push_back(choice.plan);
    curve.losses.push_back(choice.loss);
    curve.bytes.push_back(static_cast<std::int64_t>(planned_bytes(choice.plan, candidate)));
  }
  if (!request.calibrated() || request.settings.goal.tolerance || menu.coarsest_loss <= 0) return;
  if (const auto moved = request.moments->effect(candidate.name, menu.coarsest))
    job.effect = *moved * menu.norm / menu.coarsest_loss;
}

void measure(LayerJob& job, Evidence evidence, const Request& request) {
  if (job.first->form == PlannedForm::grid) return measure_grids(job, evidence, request);
  if (!request.calibrated()) {
    std::vector<double> losses =
        layer_losses(job.candidate, read_weight(request.folder, job.candidate), std::move(evidence));
    // The tolerance must hold for the fit that is made later, which may lose more than the best one.
    for (std::size_t r = 1; r < losses.size() && request.settings.goal.tolerance; ++r)
      losses[r] *= 1 + tt::iterated_excess;
    return add_curve(job, std::move(losses), request);
  }
  const LayerFactors factors(job.candidate, read_weight(request.folder, job.candidate), std::move(evidence), 0);
  add_curve(job, factors.losses(), request);
  job.effect = effect_of(job, factors, request);
}

using JobsByName = std::map<std::string, LayerJob*>;

std::int64_t widest_linear(const std::vector<LayerJob>& jobs) {
  std::int64_t widest = 0;
  for (const LayerJob& job : jobs)
    if (!job.candidate.table) widest = std::max(widest, job.candidate.in());
  return widest;
}

// Measures the layers whose inputs the text reaches, and removes them from `left`. A part of a long text is enough to
// choose the ranks, if it has enough tokens for every input.
void measure_on_text(JobsByName& left, std::int64_t tokens, const Request& request, TaskProgress& task) {
  const auto each = [&](const MomentGroup& group) {
    for (const std::string& name : group.layers) {
      const auto found = left.find(name);
      if (found == left.end()) continue;
      const TaskProgress layer(name);
      check_stop();
      measure(*found->second, {&group, {}}, request);
      task.advance();
      left.erase(found);
    }
  };
  const auto wanted = [&](const std::string& layer, std::size_t) { return left.contains(layer); };
  request.moments->visit({.wants = wanted, .tokens = tokens}, each);
}

// Sets the weights of the layers' relative losses. With calibration: the measured effect, if it was measured for every
// layer, otherwise 1. Without calibration: a table counts as much as all linear layers together, because all of them
// read its outputs. allot_size() replaces these weights if smaller tables alone meet the budget.
void weigh(const std::vector<LayerJob*>& measured, bool calibrated) {
  double linear = 0;
  bool effects = true;
  for (const LayerJob* job : measured) {
    linear += !job->candidate.table;
    effects = effects && job->effect;
  }
  for (LayerJob* job : measured) {
    const bool counts_more = job->candidate.table && !calibrated;
    job->curve->weight = effects ? *job->effect : counts_more ? std::max(1.0, linear) : 1;
  }
}

}  // namespace

bool uses_spectra(const std::vector<LayerJob>& jobs, const Request& request) {
  if (!request.settings.goal.needs_losses()) return false;
  if (request.calibrated() || request.settings.goal.tolerance) return true;
  return std::all_of(jobs.begin(), jobs.end(),
                     [](const LayerJob& job) { return std::min(job.candidate.in(), job.candidate.out()) <= large; });
}

void measure_layers(std::vector<LayerJob>& jobs, const Request& request) {
  const bool spectra = uses_spectra(jobs, request);
  std::vector<LayerJob*> open;
  JobsByName left;
  for (LayerJob& job : jobs) {
    if (job.ruled_dense()) continue;
    open.push_back(&job);
    left[job.candidate.name] = &job;
  }
  TaskProgress task("looking at layers", std::ssize(left));
  if (spectra && request.calibrated()) measure_on_text(left, enough_tokens(widest_linear(jobs)), request, task);
  for (const auto& [name, job] : left) {
    const TaskProgress layer(name);
    check_stop();
    if (spectra || (job->first->form == PlannedForm::grid && request.settings.goal.needs_losses()))
      measure(*job, table_evidence(request.moments, job->candidate, job->first->layout.exact_rows), request);
    else
      add_curve(*job, straight_losses(job->candidate), request);
    task.advance();
  }
  weigh(open, request.calibrated());
}

}  // namespace comera::compress
