#include "models/forms.h"

#include <fmt/core.h>

#include <algorithm>

#include "lib/core/error.h"
#include "lib/core/glob.h"
#include "lib/core/options/rule.h"
#include "lib/tt/modes.h"

namespace comera::models {
namespace {

struct Choice {
  Form form;
  std::int64_t rank;
  tt::Sizes modes;
};

// The paper's modes for BERT's vocabulary; other tables use the general rule.
tt::Sizes table_modes_of(const WeightSite& site, int order) {
  if (site.rows == 30522 && site.columns == 768 && order == 4) return {16, 20, 10, 10, 4, 4, 8, 6};
  return tt::table_modes(site.rows, site.columns, order);
}

tt::Sizes default_modes(const WeightSite& site, const FormRules& rules, Form form) {
  if (site.table)
    return form == Form::lowrank ? tt::Sizes{site.rows, 1, 1, site.columns}
                                 : table_modes_of(site, rules.embedding_order);
  return form == Form::lowrank ? tt::Sizes{site.columns, site.rows}
                               : tt::linear_modes(site.columns, site.rows, rules.order);
}

// True if the modes can describe the weight. Linear modes [in | out] must match exactly; tables may have spare rows.
bool fits(const tt::Sizes& modes, const WeightSite& site) {
  const auto half = static_cast<std::ptrdiff_t>(modes.size() / 2);
  const std::int64_t first = tt::product({modes.begin(), modes.begin() + half}),
                     second = tt::product({modes.begin() + half, modes.end()});
  if (site.table) return second == site.columns && first >= site.rows && first < 2 * site.rows;
  return first == site.columns && second == site.rows;
}

void require_fit(const tt::Sizes& modes, const WeightSite& site) {
  if (fits(modes, site)) return;
  fail_input(
      "[model] {}: modes {} do not describe a weight of {} x {}; the {} modes must multiply to {} and the {} modes to "
      "{}",
      site.name, tt::to_string(modes), site.table ? site.rows : site.columns, site.table ? site.columns : site.rows,
      site.table ? "row" : "in", site.table ? fmt::format("at least {}", site.rows) : fmt::format("{}", site.columns),
      site.table ? "column" : "out", site.table ? site.columns : site.rows);
}

Choice choose(const WeightSite& site, const FormRules& rules, std::vector<bool>& layer_used,
              std::vector<bool>& modes_used) {
  const bool small = site.table ? site.rows < rules.least_rows : site.rows * site.columns < rules.least_entries;
  const Form general = site.table ? rules.table_form.value_or(rules.form) : rules.form;
  Choice choice{small ? Form::dense : general, site.table ? rules.embedding_rank : rules.rank, {}};
  for (std::size_t i = 0; i < rules.modes.size(); ++i)
    if (fits(rules.modes[i], site) && (rules.modes[i].size() > 2 || general == Form::lowrank))
      choice.modes = rules.modes[i], modes_used[i] = true;
  for (std::size_t i = 0; i < rules.layers.size(); ++i) {
    const LayerRule& rule = rules.layers[i];
    if (!glob_match(rule.pattern, site.name)) continue;
    layer_used[i] = true;
    if (rule.of_preset && site.table && rules.table_form_asked) continue;
    if (rule.form) choice.form = *rule.form;
    if (rule.rank) choice.rank = *rule.rank;
    if (!rule.modes.empty()) choice.modes = rule.modes;
  }
  if (choice.modes.empty()) choice.modes = default_modes(site, rules, choice.form);
  return choice;
}

WeightForm form_from(const WeightSite& site, const Choice& choice) {
  require_fit(choice.modes, site);
  tt::Layout layout;
  layout.kind = site.table ? tt::Kind::ttm : tt::Kind::tt;
  layout.modes = choice.modes;
  layout.ranks = tt::uniform_ranks(layout.entry_sizes(), choice.rank,
                                   fmt::format("[model] {} (--{})", site.name, site.table ? "embedding-rank" : "rank"));
  return layers::chain_form(std::move(layout));
}

// Checks that the ranks can result from `largest` by rank removal: no rank is larger, and the outer ranks are equal.
void require_smaller(const std::string& name, const tt::Sizes& ranks, const tt::Sizes& largest) {
  bool fits = ranks.size() == largest.size() && !ranks.empty() && ranks.front() == largest.front() &&
              ranks.back() == largest.back();
  for (std::size_t k = 0; fits && k < ranks.size(); ++k) fits = ranks[k] >= 0 && ranks[k] <= largest[k];
  if (!fits)
    fail_input(
        "[model] {}: ranks {} are none that its ranks {} can fall to; the checkpoint is damaged or of another model",
        name, tt::to_string(ranks), tt::to_string(largest));
}

Form parse_form(const Rule& rule, const std::string& text) {
  if (const std::optional<Form> form = form_named(text)) return *form;
  fail_rule(rule, "[model]", fmt::format("there is no form '{}'; use dense, tt or lowrank", text));
}

}  // namespace

const char* name_of(Form form) {
  switch (form) {
    case Form::dense: return "dense";
    case Form::tt: return "tt";
    case Form::lowrank: return "lowrank";
  }
  return "?";
}

std::optional<Form> form_named(std::string_view name) {
  for (const Form form : {Form::dense, Form::tt, Form::lowrank})
    if (name == name_of(form)) return form;
  return std::nullopt;
}

LayerRule parse_layer_rule(const std::string& text) {
  const Rule words = parse_rule(text, "[model]");
  LayerRule rule;
  rule.pattern = words.pattern;
  for (const Rule::Item& item : words.items) {
    if (item.key == "rank")
      rule.rank = rule_rank(words, "[model]", item.value);
    else if (item.key == "form")
      rule.form = parse_form(words, item.value);
    else if (item.key == "modes")
      rule.modes = tt::parse_modes(item.value);
    else
      fail_unknown(words, "[model]", item, "rank:, form: or modes:");
  }
  return rule;
}

void apply_forms(Spec& spec, const std::vector<WeightSite>& sites, const FormRules& rules) {
  std::vector<bool> layer_used(rules.layers.size()), modes_used(rules.modes.size());
  spec.forms.clear();
  for (const WeightSite& site : sites) {
    const Choice choice = choose(site, rules, layer_used, modes_used);
    if (choice.form == Form::dense) continue;
    WeightForm& form = spec.forms[site.name] = form_from(site, choice);
    if (choice.form == Form::lowrank && !site.table) form.between = rules.between;
  }
  const auto has_between = [](const auto& named) { return named.second.between != kernels::Activation::none; };
  if (rules.between != kernels::Activation::none && std::none_of(spec.forms.begin(), spec.forms.end(), has_between))
    fail_input("[model] --between {}: no linear weight is in low-rank form; use --form lowrank",
               layers::name_of(rules.between));
  for (std::size_t i = 0; i < layer_used.size(); ++i)
    if (!layer_used[i] && !rules.layers[i].of_preset)
      fail_input("[model] --layer: no weight is named like '{}'; list the names with --dry-run",
                 rules.layers[i].pattern);
  for (std::size_t i = 0; i < modes_used.size(); ++i)
    if (!modes_used[i])
      fail_input(
          "[model] --modes {}: no weight has that size; in modes must multiply to a layer's inputs, out modes to its "
          "outputs",
          tt::to_string(rules.modes[i]));
}

void apply_forms(ModelSpec& spec, const FormRules& rules) { apply_forms(common(spec), weight_sites(spec), rules); }

void apply_ranks(Spec& spec, const layers::RankTable& ranks) {
  for (const auto& [name, row] : ranks) {
    const auto found = spec.forms.find(name);
    if (found == spec.forms.end())
      fail_input("[model] {} has ranks but no tensor-train form; the checkpoint is damaged or of another model", name);
    require_smaller(name, row, found->second.layout.ranks);
    found->second.layout.ranks = row;
  }
}

}  // namespace comera::models
