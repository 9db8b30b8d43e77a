#include "tools/compression.h"

#include <fmt/core.h>

#include <set>

#include "lib/core/error.h"
#include "lib/core/join.h"
#include "lib/core/terminal/log.h"
#include "tools/reading.h"
#include "tools/stored_model.h"

namespace comera::tools {
namespace {

using compress::PlannedForm;

PlannedForm form_of(const std::string& word) {
  for (const PlannedForm form : {PlannedForm::automatic, PlannedForm::tt, PlannedForm::ttm, PlannedForm::lowrank})
    if (word == compress::name_of(form)) return form;
  fail_input("[tensorize] --form {}: use auto, tt, ttm or lowrank", word);
}

std::vector<std::string> given_of(const OptionValues& values, std::initializer_list<const char*> names) {
  std::vector<std::string> given;
  for (const char* name : names)
    if (values.given(name)) given.push_back(fmt::format("--{}", name));
  return given;
}

// Rejects options that contradict --plan. --include is allowed: for an unknown architecture it selects the weights that
// a plan may contain.
void check_plan(const OptionValues& values) {
  if (!values.given("plan")) return;
  const std::vector<std::string> beside =
      given_of(values, {"layer", "form", "order", "bits", "group", "gauge", "uniform", "floor", "allow-slower",
                        "exact-rows", "exclude"});
  if (!beside.empty())
    fail_input("[tensorize] --plan {}: the plan defines every layer completely; edit it, or leave out {}",
               values.text("plan"), join(beside, ", "));
}

compress::MadeFor made_for(const OptionValues& values) {
  using compress::MadeFor;
  const std::string& name = values.text("for");
  if (name == "gguf") return MadeFor::gguf;
  if (name == "onnx") return MadeFor::onnx;
  return name == "hf" ? MadeFor::hf : MadeFor::any;
}

// Grids of a menu that shares bytes; `group`: the one that was given.
std::vector<quant::Grid> menu_of_grids(std::optional<std::int64_t> group, compress::MadeFor made_for) {
  using compress::MadeFor;
  using quant::Grid;
  std::vector<Grid> grids{Grid::q8_0, Grid::q4_1};
  std::vector<std::int64_t> groups{quant::block};
  if (made_for != MadeFor::gguf) groups.push_back(quant::largest_group);
  if (group) groups = {*group};
  for (const Grid codes : {Grid::q4_0, Grid::q3_0, Grid::q2_0})
    for (const std::int64_t one : groups)
      if (codes == Grid::q4_0 || made_for == MadeFor::any || made_for == MadeFor::hf)
        grids.push_back(quant::in_groups(codes, one).value());
  return grids;
}

std::vector<quant::Grid> grids_of(const OptionValues& values, compress::MadeFor made_for) {
  const std::string& bits = values.text("bits");
  std::optional<std::int64_t> group;
  if (values.given("group")) group = parse_integer(values.text("group"));
  if (bits == "none") {
    if (group) fail_input("[tensorize] --group {} is for weights on grids; add --bits", *group);
    return {};
  }
  if (group && *group != quant::block && made_for == compress::MadeFor::gguf)
    fail_input("[tensorize] --group {} --for gguf: GGUF has groups of 32 alone; leave out --group", *group);
  if (bits == "auto") return menu_of_grids(group, made_for);
  const std::optional<quant::Grid> grid =
      quant::in_groups(compress::grid_of_bits(bits).value(), group.value_or(quant::block));
  if (!grid)
    fail_input("[tensorize] --bits {} --group {}: 8 bits have groups of 32 alone; leave out --group", bits, *group);
  return {*grid};
}

// Each size gets a folder, which is named after it.
void require_distinct(const char* name, const std::vector<std::string>& texts, const compress::Goal& goal) {
  if (texts.empty()) fail_input("[tensorize] --{}: no size came", name);
  const std::set<double> ratios(goal.ratios.begin(), goal.ratios.end());
  const std::set<std::uint64_t> budgets(goal.budgets.begin(), goal.budgets.end());
  if (ratios.size() + budgets.size() < texts.size())
    fail_input("[tensorize] --{} {}: two of the sizes are the same; leave one out", name, join(texts, ","));
}

compress::Goal goal_of(const OptionValues& values) {
  const std::vector<std::string> given = given_of(values, {"ratio", "budget", "rank", "tol", "plan"});
  const std::string& bits = values.text("bits");
  if (given.empty() && bits != "none" && bits != "auto") {
    compress::Goal goal;
    goal.rank = 0;  // the grid alone, without corrections
    return goal;
  }
  if (bits == "auto" && values.given("rank"))
    fail_input("[tensorize] --bits auto needs --ratio or --budget; with --rank give --bits 2, 3, 4 or 8");
  if (given.size() != 1)
    fail_input("[tensorize] {}; give exactly one of --ratio, --budget, --rank, --tol and --plan",
               given.empty() ? "the size of the result is not given" : fmt::format("{} came", join(given, " and ")));
  compress::Goal goal;
  for (const std::string& text : values.list("ratio")) {
    const std::optional<double> ratio = parse_real(text);
    if (!ratio || *ratio <= 1 || *ratio > 1e9)
      fail_input("[tensorize] --ratio {}: expected a number above 1, dense bytes / compressed bytes", text);
    goal.ratios.push_back(*ratio);
  }
  for (const std::string& text : values.list("budget")) {
    const std::optional<std::uint64_t> budget = parse_size(text);
    if (!budget || *budget == 0)
      fail_input("[tensorize] --budget {}: expected bytes of the file, such as 68157440, 65MiB or 65MB",
                 printable(text));
    goal.budgets.push_back(*budget);
  }
  for (const char* name : {"ratio", "budget"})
    if (values.given(name)) require_distinct(name, values.list(name), goal);
  if (values.given("rank")) goal.rank = values.integer("rank");
  if (values.given("tol")) goal.tolerance = values.real("tol");
  if (values.given("plan")) goal.plan_file = values.text("plan");
  return goal;
}

compress::Refinement::When refinement_when(const std::string& word) {
  using When = compress::Refinement::When;
  return word == "always" ? When::always : word == "never" ? When::never : When::where_it_pays;
}

}  // namespace

compress::Settings compression_settings(const OptionValues& values) {
  compress::Settings settings;
  settings.model = values.positionals()[0];
  settings.adapter = adapter_of(values);
  settings.reading = reading_of(settings.model);
  settings.goal = goal_of(values);
  check_plan(values);
  refuse_without_effect(values);
  settings.form = form_of(values.text("form"));
  settings.made_for = made_for(values);
  settings.grids = grids_of(values, settings.made_for);
  settings.sweeps = static_cast<int>(values.integer("sweeps"));
  const bool chosen = values.text("bits") == "auto";
  settings.corrections = !chosen || values.flag("corrections");
  settings.factors = chosen && settings.corrections && settings.made_for == compress::MadeFor::any;
  if (!settings.grids.empty() && values.text("budget-of") == "onnx")
    fail_input(
        "[tensorize] --budget-of onnx counts a graph whose weights on grids are dense; leave it out (`comera export "
        "--quantized` writes a graph as small as the folder)");
  if (!settings.grids.empty() && settings.form != PlannedForm::automatic)
    fail_input("[tensorize] --bits {}: weights on grids have no --form; give a form to some layers with --layer",
               values.text("bits"));
  if (!settings.grids.empty() && values.given("rank") && !values.has("calibrate"))
    fail_input("[tensorize] --rank with --bits {}: corrections are fitted to text; add --calibrate TEXT",
               values.text("bits"));
  if (values.has("order")) settings.order = static_cast<int>(values.integer("order"));
  settings.choice = {values.list("include"), values.list("exclude")};
  for (const std::string& rule : values.list("layer")) settings.rules.push_back(compress::parse_layer_rule(rule));
  settings.gauge = values.flag("gauge");
  settings.uniform = values.flag("uniform");
  settings.allow_slower = values.flag("allow-slower");
  if (values.given("exact-rows")) settings.exact_rows = values.integer("exact-rows");
  settings.floor = values.real("floor");
  settings.again = values.flag("again");
  settings.sequential = values.flag("sequential");
  settings.refinement = {refinement_when(values.text("refine")), values.integer("refine-steps"),
                         values.real("refine-lr")};
  if (values.has("output")) settings.output = values.text("output");
  return settings;
}

}  // namespace comera::tools
