#include "lib/compress/plan/planning.h"

#include <fmt/core.h>

#include <algorithm>

#include "lib/core/error.h"
#include "lib/core/terminal/log.h"
#include "lib/tt/modes.h"

namespace comera::compress {
namespace {

void apply(const LayerRule& rule, LayerPlan& plan) {
  if (rule.form) plan.form = *rule.form;
  if (rule.rank) plan.rank = *rule.rank;
  if (rule.grid) plan.form = PlannedForm::grid, plan.grid = *rule.grid, plan.fixed_grid = true;
  if (rule.cores) plan.cores = *rule.cores;
  if (rule.gauge) plan.layout.gauge = *rule.gauge;
  if (rule.exact) plan.layout.exact_rows = *rule.exact, plan.exact_of_all = false;
  if (!rule.in_modes.empty()) set_modes(plan, rule.in_modes, rule.out_modes);
}

// With calibration, a tt has two input modes and one output mode. Then the input cores can be fitted to the inputs, and
// the last core can have a gauge.
void default_modes(LayerPlan& plan, const Candidate& candidate, const Settings& settings, bool calibrated) {
  if (!plan.layout.modes.empty()) return set_modes(plan, plan.layout.in_modes(), plan.layout.out_modes());
  const tt::Sizes modes = plan.form == PlannedForm::ttm
                              ? tt::table_modes(candidate.in(), candidate.out(), settings.table_order)
                              : tt::linear_modes(candidate.in(), candidate.out(), settings.order.value_or(2));
  const auto middle = modes.begin() + static_cast<std::ptrdiff_t>(modes.size() / 2);
  const bool one_output = plan.form == PlannedForm::tt && calibrated && !settings.order;
  set_modes(plan, {modes.begin(), middle}, one_output ? tt::Sizes{candidate.out()} : tt::Sizes{middle, modes.end()});
}

// tt applies only to linear layers, ttm only to tables. first_plan() uses the other form for the other kind.
bool is_other_kind(PlannedForm form, const Candidate& candidate) {
  return form == (candidate.table ? PlannedForm::tt : PlannedForm::ttm);
}

void log_other_kinds(const std::vector<LayerJob>& jobs, const Settings& settings) {
  const auto ruled = [&](const Candidate& candidate) {
    return std::any_of(settings.rules.begin(), settings.rules.end(),
                       [&](const LayerRule& rule) { return rule.form && matches({rule.pattern}, candidate.name); });
  };
  const bool some = std::any_of(jobs.begin(), jobs.end(), [&](const LayerJob& job) {
    return is_other_kind(settings.form, job.candidate) && !ruled(job.candidate);
  });
  if (!some) return;
  const bool ttm = settings.form == PlannedForm::ttm;
  log_info("--form {} is a form of {}; {} take {}", ttm ? "ttm" : "tt", ttm ? "tables" : "linear layers",
           ttm ? "linear layers" : "tables", ttm ? "tt" : "ttm");
}

bool has_whole_blocks(const Candidate& candidate) {
  return (candidate.table ? candidate.out() : candidate.in()) % quant::block == 0;
}

// Parts of a rule that the form of the layer does not have.
void require_use(const LayerRule& rule, const LayerPlan& plan, const Candidate& candidate, bool calibrated) {
  if (!rule.in_modes.empty() && !has_modes(plan.form))
    fail_input("[tensorize] --layer '{}': {} has form {}, which has no modes; add form:tt (of a table: form:ttm)",
               rule.text, printable(plan.name), name_of(plan.form));
  if (rule.rank && *rule.rank > 0 && plan.form == PlannedForm::grid && !calibrated)
    fail_input(
        "[tensorize] --layer '{}': a rank beside bits is that of a correction, which is fitted to text; add "
        "--calibrate TEXT, or form:lowrank",
        rule.text);
  if (rule.rank && *rule.rank > 0 && plan.form == PlannedForm::grid && candidate.table)
    fail_input(
        "[tensorize] --layer '{}': {} is a table on a grid, and corrections are for linear layers; leave its rank out, "
        "or use form:lowrank",
        rule.text, printable(plan.name));
}

bool has_rule_of_cores(const Settings& settings, const Candidate& candidate) {
  return std::ranges::any_of(
      settings.rules, [&](const LayerRule& rule) { return rule.cores && matches({rule.pattern}, candidate.name); });
}

LayerPlan first_plan(const Candidate& candidate, const Settings& settings, bool calibrated, std::vector<bool>& used) {
  LayerPlan plan;
  plan.name = candidate.name;
  plan.form = settings.grids.empty() ? settings.form : PlannedForm::grid;
  if (!settings.grids.empty()) plan.grid = settings.grids.front();
  plan.sweeps = settings.sweeps;
  plan.layout.gauge = settings.gauge;
  if (candidate.table) {
    plan.layout.exact_rows = settings.exact_rows.value_or(0);
    plan.exact_of_all = settings.exact_rows != 0;
  }
  if (is_other_kind(settings.form, candidate)) plan.form = candidate.table ? PlannedForm::ttm : PlannedForm::tt;
  for (std::size_t i = 0; i < settings.rules.size(); ++i)
    if (matches({settings.rules[i].pattern}, candidate.name)) apply(settings.rules[i], plan), used[i] = true;
  for (const LayerRule& rule : settings.rules)
    if (matches({rule.pattern}, candidate.name)) require_use(rule, plan, candidate, calibrated);
  // Corrections of 8 bits have half of the bytes of half precision, and the same error of the layer to a thousandth.
  if (plan.form == PlannedForm::grid && settings.made_for == MadeFor::any && !has_rule_of_cores(settings, candidate))
    plan.cores = quant::Grid::q8_0;
  if (plan.form == PlannedForm::keep_dense) plan.reason = "--layer asks for it", plan.layout.exact_rows = 0;
  if (plan.exact_of_all && plan.layout.exact_rows >= candidate.in()) {
    plan.form = PlannedForm::keep_dense;
    plan.reason = fmt::format("--exact-rows {} keeps each of its {} rows", plan.layout.exact_rows, candidate.in());
    plan.layout.exact_rows = 0;
  }
  if (plan.form == PlannedForm::tt || plan.form == PlannedForm::ttm)
    default_modes(plan, candidate, settings, calibrated);
  if (plan.form == PlannedForm::grid && !has_whole_blocks(candidate) && settings.made_for == MadeFor::gguf) {
    plan.form = PlannedForm::keep_dense;
    plan.reason = "GGUF has whole blocks of 32 alone";
  }
  if (settings.goal.plan_file.empty())
    require_storable(plan, candidate, settings.made_for, "[tensorize] " + candidate.name);
  LayerPlan checked = plan;
  if (plan.form != PlannedForm::grid) checked.rank = std::max<std::int64_t>(plan.rank, 1);
  check_layer(checked, candidate, "[tensorize] " + candidate.name);
  return plan;
}

}  // namespace

void require_storable(const LayerPlan& plan, const Candidate& candidate, MadeFor made_for, const std::string& where) {
  if (made_for == MadeFor::any || plan.form == PlannedForm::keep_dense) return;
  if (made_for == MadeFor::graph) {
    if (plan.cores || plan.form == PlannedForm::grid)
      fail_input(
          "{}: the weights of an ONNX graph stay floating-point numbers; leave out bits and cores, or tensorize the "
          "model's folder and use `comera export --quantized`",
          where);
    return;
  }
  const char* name = made_for == MadeFor::gguf ? "gguf" : made_for == MadeFor::hf ? "hf" : "onnx";
  if (plan.cores) fail_input("{}: --for {}: there the numbers of cores are floating-point; use cores:16", where, name);
  if (plan.form == PlannedForm::grid) {
    if (made_for == MadeFor::hf) return;
    if (quant::bits_of(plan.grid) < 4)
      fail_input("{}: --for {}: there are no grids of {} bits; use 4 or 8", where, name, quant::bits_of(plan.grid));
    if (made_for == MadeFor::gguf && quant::group_of(plan.grid) != quant::block)
      fail_input("{}: --for gguf: GGUF has groups of 32, and {} of {} came; use group:32", where,
                 quant::name_of(plan.grid), quant::group_of(plan.grid));
    if (made_for == MadeFor::gguf && plan.layout.exact_rows > 0)
      fail_input("{}: --for gguf: GGUF has no table of bits and {} exact rows; leave out --exact-rows and exact:",
                 where, plan.layout.exact_rows);
    if (made_for == MadeFor::gguf && !has_whole_blocks(candidate))
      fail_input("{}: --for gguf: its lines are no whole blocks of 32; let it stay dense", where);
    return;
  }
  if (made_for == MadeFor::gguf)
    fail_input("{}: --for gguf: GGUF files have no weights in tensor-train or low-rank form; use --bits 4, 8 or auto",
               where);
  if (made_for == MadeFor::hf)
    fail_input("{}: --for hf: transformers has no weights in tensor-train or low-rank form; use --bits", where);
}

void plan_layers(std::vector<LayerJob>& jobs, const Settings& settings, bool calibrated) {
  std::vector<bool> used(settings.rules.size());
  for (LayerJob& job : jobs) job.first = first_plan(job.candidate, settings, calibrated, used);
  for (std::size_t i = 0; i < used.size(); ++i)
    if (!used[i])
      fail_input("[tensorize] --layer '{}': no weight to compress is named like '{}'; list the names with --dry-run",
                 settings.rules[i].text, settings.rules[i].pattern);
  log_other_kinds(jobs, settings);
}

}  // namespace comera::compress
