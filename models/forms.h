// Chooses the form of every weight of a model: one rule for all weights, with exceptions by name.
#pragma once

#include <optional>
#include <string_view>

#include "models/architecture.h"

namespace comera::models {

enum class Form : std::uint8_t { dense, tt, lowrank };
const char* name_of(Form form);
std::optional<Form> form_named(std::string_view name);  // none: there is no such form

// An exception for the weights whose name matches `pattern`.
struct LayerRule {
  std::string pattern;
  std::optional<Form> form;
  std::optional<std::int64_t> rank;
  std::vector<std::int64_t> modes;  // empty: the general modes
  bool of_preset = false;           // may match no weight
};

struct FormRules {
  Form form = Form::tt;
  std::optional<Form> table_form;  // of tables of words; none: `form`
  bool table_form_asked = false;   // holds against the rules of a preset too
  std::int64_t rank = 30, embedding_rank = 32;
  int order = 3, embedding_order = 4;                       // modes per side
  kernels::Activation between = kernels::Activation::none;  // of low-rank linear weights
  std::vector<std::vector<std::int64_t>> modes;             // each entry applies to every weight of its size
  std::vector<LayerRule> layers;                            // the last match wins
  // Smaller weights stay dense unless a rule of `layers` gives them a form.
  std::int64_t least_rows = 0, least_entries = 0;  // of tables; of linear weights
};

// Parses "glob=rank:16", "glob=form:dense", "glob=rank:8;modes:12x8x8|8x8x12".
LayerRule parse_layer_rule(const std::string& text);

// Fills spec.forms. InputError if modes do not multiply to a weight's size, if a rank is too large, or if a rule
// matches no weight.
void apply_forms(Spec& spec, const std::vector<WeightSite>& sites, const FormRules& rules);
void apply_forms(ModelSpec& spec, const FormRules& rules);
// Sets smaller ranks, as after a removal.
void apply_ranks(Spec& spec, const layers::RankTable& ranks);

}  // namespace comera::models
