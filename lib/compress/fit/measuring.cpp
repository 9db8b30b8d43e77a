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
  LayerPlan first = *job.first;
  if (request.settings.goal.counted) first.cores.reset();  // graphs have floating-point cores
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

bool has_effect(const Request& request) { return request.calibrated() && !request.settings.goal.tolerance; }

// The effect of a layer at each probed grid, relative to the loss there. Nothing if the text does not reach the layer.
std::vector<double> effects_of(const Candidate& candidate, const GridMenu& menu, const Request& request) {
  std::vector<double> effects;
  tt::Matrix weight;  // where rows are exact
  for (const GridMenu::Probed& at : menu.probed) {
    if (at.loss <= 0) break;
    tt::Matrix fitted = expand(candidate, *at.base);
    if (!at.exact_rows.empty() && weight.values.empty()) weight = read_weight(request.folder, candidate);
    for (const std::int32_t row : at.exact_rows) std::copy_n(weight.row(row), weight.columns, fitted.row(row));
    const auto moved = request.moments->effect(candidate.name, fitted);
    if (!moved) return {};
    effects.push_back(*moved * menu.norm / at.loss);
  }
  return effects;
}

// The effect is not linear in the loss: a coarse grid moves later layers far from their inputs. The losses of a grid
// are multiplied by the effect at that grid, or at the nearest coarser one that was probed, relative to the coarsest
// one's; those of other forms by the effect at the probed grid with the nearest larger loss. The probed one has the
// same exact rows: for a table that also decodes, look-ups alone would not tell what they are worth.
void scale_losses(GridMenu& menu, const std::vector<double>& effects) {
  for (GridChoice& choice : menu.choices) {
    const bool on_grid = choice.plan.form == PlannedForm::grid;
    double effect = effects[0];
    for (std::size_t i = 0; i < effects.size(); ++i) {
      const GridMenu::Probed& at = menu.probed[i];
      const bool coarser =
          on_grid ? quant::bits_of(at.base->grid) <= quant::bits_of(choice.plan.grid) : at.loss >= choice.loss;
      const bool same = std::ssize(at.exact_rows) == choice.plan.layout.exact_rows;
      if (coarser && same) effect = effects[i];
    }
    choice.loss *= effect / effects[0];
  }
}

// Curve, menu and effect of a layer that is stored on a grid.
void take_menu(LayerJob& job, GridMenu menu, const Request& request) {
  const Candidate& candidate = job.candidate;
  const std::vector<double> effects =
      has_effect(request) ? effects_of(candidate, menu, request) : std::vector<double>();
  if (!effects.empty()) {
    job.effect = effects[0];
    if (effects[0] > 0) scale_losses(menu, effects);
  }
  tt::LossCurve& curve = job.curve.emplace();
  curve.name = candidate.name;
  curve.dense_bytes = static_cast<std::int64_t>(candidate.bytes());
  curve.losses = {menu.norm};
  curve.bytes = {0};
  curve.menu = true;
  for (const GridChoice& choice : best_choices(std::move(menu.choices), candidate)) {
    job.menu.push_back(choice.plan);
    curve.losses.push_back(choice.loss);
    curve.bytes.push_back(static_cast<std::int64_t>(planned_bytes(choice.plan, candidate)));
  }
}

// A layer, and what is known about its inputs.
struct Measured {
  LayerJob* job;
  Evidence evidence;
};

// Such a layer has all threads and the memory for itself: the factors of its moment or the copies of its table are
// large.
bool is_large(const Measured& layer) {
  const MomentGroup* inputs = layer.evidence.inputs;
  return (inputs && inputs->fit.moment.rows > widest_spectrum) || layer.job->candidate.elements() > std::int64_t{1}
                                                                                                        << 26;
}

// Layers that are stored on grids. The probes run one after the other, on all threads.
void measure_grids(const std::vector<Measured>& layers, const Request& request, TaskProgress& task) {
  std::vector<GridMenu> menus(layers.size());
  const auto find_menu = [&](std::int64_t i) {
    const Measured& layer = layers[static_cast<std::size_t>(i)];
    const LayerPlan& first = *layer.job->first;
    const TaskProgress named(layer.job->candidate.name);
    check_stop();
    const Settings& settings = request.settings;
    MenuForms forms{first.fixed_grid ? std::vector{first.grid} : settings.grids, settings.corrections,
                    settings.factors && !first.fixed_grid};
    // GGUF has no table of bits and exact rows.
    if (settings.made_for != MadeFor::gguf) forms.exact_rows = exact_row_choices(first, layer.evidence.row_weights);
    menus[static_cast<std::size_t>(i)] = grid_menu(
        layer.job->candidate, read_weight(request.folder, layer.job->candidate), layer.evidence, first, forms);
    if (!has_effect(request)) menus[static_cast<std::size_t>(i)].probed.clear();
  };
  std::vector<std::int64_t> together;
  for (std::int64_t i = 0; i < std::ssize(layers); ++i)
    if (is_large(layers[static_cast<std::size_t>(i)]))
      tt::each_apart(1, [&](std::int64_t) { find_menu(i); });
    else
      together.push_back(i);
  tt::each_apart(std::ssize(together), [&](std::int64_t k) { find_menu(together[static_cast<std::size_t>(k)]); });
  for (std::size_t i = 0; i < layers.size(); ++i) {
    check_stop();
    take_menu(*layers[i].job, std::move(menus[i]), request);
    task.advance();
  }
}

void measure(LayerJob& job, Evidence evidence, const Request& request) {
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
  const auto wanted = [&](const std::string& layer, std::size_t) {
    const auto found = left.find(layer);
    return found != left.end() && found->second->reads_inputs();
  };
  const auto each = [&](std::span<const MomentGroup> groups) {
    std::vector<Measured> on_grids;
    for (const MomentGroup& group : groups)
      for (const std::string& name : group.layers) {
        const auto found = left.find(name);
        if (found == left.end()) continue;
        LayerJob& job = *found->second;
        left.erase(found);
        if (job.on_grid()) {
          on_grids.push_back({&job, {&group, {}}});
          continue;
        }
        const TaskProgress layer(name);
        check_stop();
        measure(job, {&group, {}}, request);
        task.advance();
      }
    measure_grids(on_grids, request, task);
  };
  request.moments->visit_together({.wants = wanted, .tokens = tokens}, each);
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
  return std::all_of(jobs.begin(), jobs.end(), [](const LayerJob& job) {
    return std::min(job.candidate.in(), job.candidate.out()) <= widest_spectrum;
  });
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
  std::vector<Measured> on_grids;
  for (const auto& [name, job] : left) {
    const bool on_grid = job->on_grid() && request.settings.goal.needs_losses();
    Evidence evidence;
    if (on_grid || spectra) evidence = table_evidence(request.moments, job->candidate, job->first->layout.exact_rows);
    if (on_grid) {
      on_grids.push_back({job, std::move(evidence)});
      continue;
    }
    const TaskProgress layer(name);
    check_stop();
    if (spectra)
      measure(*job, std::move(evidence), request);
    else
      add_curve(*job, straight_losses(job->candidate), request);
    task.advance();
  }
  measure_grids(on_grids, request, task);
  weigh(open, request.calibrated());
}

}  // namespace comera::compress
