#include "lib/compress/plan.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "lib/core/error.h"
#include "lib/core/log.h"
#include "lib/core/rule.h"
#include "lib/core/suggest.h"
#include "lib/core/units.h"
#include "lib/tt/modes.h"

namespace comera::compress {
namespace {

using io::FileShape;
using io::Json;

constexpr PlannedForm forms[] = {PlannedForm::keep_dense, PlannedForm::automatic, PlannedForm::tt, PlannedForm::ttm,
                                 PlannedForm::lowrank};
const std::vector<std::string> layer_keys{"name",      "shape",     "form",         "rank",  "ranks",      "in_modes",
                                          "out_modes", "row_modes", "column_modes", "gauge", "exact_rows", "reason"};

std::optional<PlannedForm> form_named(std::string_view word) {
  for (const PlannedForm form : forms)
    if (word == name_of(form)) return form;
  return std::nullopt;
}

void check_keys(const Json& json, const std::vector<std::string>& known, const std::string& where) {
  if (!json.is_object()) fail_input("{}: is not an object", where);
  for (const auto& [key, value] : json.items())
    if (std::find(known.begin(), known.end(), key) == known.end())
      fail_input("{}: unknown key \"{}\"{}", where, printable(key), did_you_mean(key, known));
}

std::string text_at(const Json& json, const char* key, const std::string& where) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_string()) fail_input("{}: \"{}\" must be a text", where, key);
  return found->get<std::string>();
}

FileShape sizes_at(const Json& json, const char* key, const std::string& where) {
  const auto found = json.find(key);
  FileShape sizes;
  bool good = found != json.end() && found->is_array() && !found->empty() && found->size() <= 32;
  for (std::size_t i = 0; good && i < found->size(); ++i) {
    good = (*found)[i].is_number_integer() && (*found)[i] >= 1 && (*found)[i] <= (std::int64_t{1} << 40);
    if (good) sizes.push_back((*found)[i].get<std::int64_t>());
  }
  if (!good) fail_input("{}: \"{}\" must be a list of whole numbers from 1", where, key);
  return sizes;
}

// Entry sizes of the layout without an identity block, whose size is not known before the ranks are.
tt::Sizes entry_sizes(tt::Layout layout) {
  layout.gauge = false;
  return layout.entry_sizes();
}

bool has_modes(PlannedForm form) { return form == PlannedForm::tt || form == PlannedForm::ttm; }

// Reads either "rank", one rank for the middle bond (ttm: for every bond), or "ranks", the rank of every bond.
void read_ranks(const Json& json, LayerPlan& plan, const std::string& where) {
  if (!json.contains("ranks")) {
    plan.rank = sizes_at(Json{{"rank", {json.contains("rank") ? json["rank"] : Json()}}}, "rank", where)[0];
    return;
  }
  if (!has_modes(plan.form))
    fail_input("{}: \"ranks\" belongs to tt and ttm; a {} has one bond, write \"rank\"", where, name_of(plan.form));
  if (json.contains("rank")) fail_input("{}: \"rank\" and \"ranks\" are both there; keep one of them", where);
  FileShape& ranks = plan.layout.ranks = sizes_at(json, "ranks", where);
  const std::size_t cores = plan.layout.cores();
  if (ranks.size() != cores + 1)
    fail_input("{}: {} \"ranks\" came, but {} cores have {} bonds, both ends included", where, ranks.size(), cores,
               cores + 1);
  plan.rank =
      plan.form == PlannedForm::tt ? ranks[plan.layout.middle()] : *std::max_element(ranks.begin(), ranks.end());
}

LayerPlan layer_from(const Json& json, const Candidate& candidate, const std::string& where) {
  LayerPlan plan;
  plan.name = candidate.name;
  const std::string form = text_at(json, "form", where);
  if (!form_named(form))
    fail_input("{}: there is no form '{}'; use dense, auto, tt, ttm or lowrank", where, printable(form));
  plan.form = *form_named(form);
  if (json.contains("shape") && sizes_at(json, "shape", where) != candidate.shape)
    fail_input("{}: shape is not {}, which the model has; is the plan that of another model?", where,
               io::to_string(candidate.shape));
  if (has_modes(plan.form)) {
    const bool is_tt = plan.form == PlannedForm::tt;
    set_modes(plan, sizes_at(json, is_tt ? "in_modes" : "row_modes", where),
              sizes_at(json, is_tt ? "out_modes" : "column_modes", where));
    if (!is_tt && plan.layout.modes.size() != 2 * plan.layout.in_count)
      fail_input("{}: row and column modes must be equally many", where);
  }
  if (json.contains("reason")) plan.reason = text_at(json, "reason", where);
  if (const auto found = json.find("gauge"); found != json.end()) {
    if (!found->is_boolean()) fail_input("{}: \"gauge\" must be true or false", where);
    plan.layout.gauge = found->get<bool>();
  }
  if (plan.form == PlannedForm::keep_dense) return plan;
  if (const auto found = json.find("exact_rows"); found != json.end()) {
    if (!found->is_number_integer()) fail_input("{}: \"exact_rows\" must be a whole number", where);
    plan.layout.exact_rows = found->get<std::int64_t>();
  }
  read_ranks(json, plan, where);
  check_layer(plan, candidate, where);
  return plan;
}

void parse_rule_item(LayerRule& rule, const Rule& words, const Rule::Item& item) {
  if (item.key == "rank") {
    rule.rank = rule_rank(words, "[tensorize]", item.value);
  } else if (item.key == "form") {
    rule.form = form_named(item.value);
    if (!rule.form)
      fail_rule(words, "[tensorize]",
                fmt::format("there is no form '{}'; use dense, auto, tt, ttm or lowrank", printable(item.value)));
  } else if (item.key == "modes") {
    const tt::Sides sides = tt::parse_sides(item.value);
    rule.in_modes = sides.in;
    rule.out_modes = sides.out;
  } else if (const auto rows = parse_integer(item.value); item.key == "exact" && rows) {
    rule.exact = rows;
  } else if (item.key == "gauge" && (item.value == "on" || item.value == "off")) {
    rule.gauge = item.value == "on";
  } else {
    fail_unknown(words, "[tensorize]", item, "rank:, form:, modes:, gauge:on|off or exact: (a number of rows)");
  }
}

// The rank of every bond. The middle bond (ttm: every inner bond) is at most `rank`; all others are as large as their
// neighbours allow.
tt::Sizes ranks_of(const tt::Layout& layout, std::int64_t rank) {
  if (!layout.ranks.empty()) return layout.ranks;
  const tt::Sizes sizes = entry_sizes(layout);
  tt::Sizes ranks = tt::largest_ranks(sizes);
  for (std::size_t k = 1; k + 1 < ranks.size(); ++k)
    if (layout.kind == tt::Kind::ttm || k == layout.middle()) ranks[k] = std::min(ranks[k], rank);
  for (std::size_t k = 1; k < ranks.size(); ++k) ranks[k] = std::min(ranks[k], ranks[k - 1] * sizes[k - 1]);
  for (std::size_t k = ranks.size() - 1; k-- > 0;) ranks[k] = std::min(ranks[k], ranks[k + 1] * sizes[k]);
  return ranks;
}

// Requires that every bond is at most as large as its neighbours allow. Otherwise the chain would be smaller than the
// plan.
void check_ranks(const tt::Layout& layout, const std::string& where) {
  const tt::Sizes sizes = entry_sizes(layout), &ranks = layout.ranks;
  if (ranks.front() != 1 || ranks.back() != 1) fail_input("{}: the first and the last of \"ranks\" must be 1", where);
  const tt::Sizes largest = tt::largest_ranks(sizes);
  for (std::size_t k = 1; k + 1 < ranks.size(); ++k) {
    const std::int64_t limit = std::min({largest[k], ranks[k - 1] * sizes[k - 1], ranks[k + 1] * sizes[k]});
    if (ranks[k] > limit)
      fail_input("{}: rank {} at bond {} exceeds {}, the largest that its neighbours allow", where, ranks[k], k, limit);
  }
}

}  // namespace

const char* name_of(PlannedForm form) {
  switch (form) {
    case PlannedForm::keep_dense: return "dense";
    case PlannedForm::automatic: return "auto";
    case PlannedForm::tt: return "tt";
    case PlannedForm::ttm: return "ttm";
    case PlannedForm::lowrank: break;
  }
  return "lowrank";
}

LayerRule parse_layer_rule(const std::string& text) {
  const Rule words = parse_rule(text, "[tensorize]");
  LayerRule rule;
  rule.text = text;
  rule.pattern = words.pattern;
  for (const Rule::Item& item : words.items) parse_rule_item(rule, words, item);
  return rule;
}

io::ChainSpec chain_of(const LayerPlan& plan, const Candidate& candidate) {
  io::ChainSpec chain;
  chain.name = candidate.name;
  chain.shape = candidate.shape;
  chain.folded = true;
  chain.bare = candidate.bare();
  chain.conv1d = !candidate.table && candidate.conv1d;
  tt::Layout& layout = chain.layout = plan.layout;
  if (!has_modes(plan.form))
    layout = candidate.table ? tt::ttm_layout({candidate.in(), 1}, {1, candidate.out()}, {})
                             : tt::tt_layout({candidate.in()}, {candidate.out()}, {});
  layout.ranks = ranks_of(layout, plan.rank);
  layout.gauge = plan.layout.gauge && !chain.table() && layout.cores() == layout.inputs() + 1;
  layout.exact_rows = plan.layout.exact_rows;
  chain.initial_ranks = layout.ranks;
  return chain;
}

void set_modes(LayerPlan& plan, const tt::Sizes& in, const tt::Sizes& out) {
  tt::Layout& layout = plan.layout;
  layout.kind = plan.form == PlannedForm::ttm ? tt::Kind::ttm : tt::Kind::tt;
  layout.modes = in;
  layout.modes.insert(layout.modes.end(), out.begin(), out.end());
  layout.in_count = in.size();
}

void check_layer(const LayerPlan& plan, const Candidate& candidate, const std::string& where) {
  if (plan.form == PlannedForm::keep_dense) return;
  if (plan.form == PlannedForm::ttm && !candidate.table)
    fail_input("{}: ttm is a form of tables; use tt, lowrank or auto for a linear layer", where);
  if (plan.form == PlannedForm::tt && candidate.table)
    fail_input("{}: tt is a form of linear layers; use ttm, lowrank or auto for a table", where);
  // Padding rows allow a ttm larger bonds than the table itself could fill.
  const std::int64_t largest =
      plan.layout.ranks.empty() || plan.form == PlannedForm::tt ? std::min(candidate.in(), candidate.out()) : plan.rank;
  if (plan.rank < 1 || plan.rank > largest)
    fail_input("{}: rank {} is not between 1 and {}, the largest possible for {} x {}", where, plan.rank, largest,
               candidate.in(), candidate.out());
  if (plan.layout.exact_rows != 0 && !candidate.table)
    fail_input("{}: exact rows are those of a table that is looked up; a linear layer has none", where);
  if (plan.layout.exact_rows < 0 || (plan.layout.exact_rows > 0 && plan.layout.exact_rows >= candidate.in()))
    fail_input(
        "{}: {} exact rows are not between 0 and {}, one below the {} rows of the table; to keep all of them leave the "
        "table dense",
        where, plan.layout.exact_rows, candidate.in() - 1, candidate.in());
  if (!has_modes(plan.form)) return;
  const auto bounded = [](const FileShape& modes) {
    std::int64_t product = 1;
    for (const std::int64_t mode : modes)
      product = product > (std::int64_t{1} << 40) / mode ? (std::int64_t{1} << 40) + 1 : product * mode;
    return product;
  };
  const std::int64_t first = bounded(plan.layout.in_modes()), second = bounded(plan.layout.out_modes());
  const bool padded = plan.form == PlannedForm::ttm;
  if (padded && plan.layout.modes.size() != 2 * plan.layout.in_count)
    fail_input("{}: row and column modes must be equally many", where);
  if (second != candidate.out() ||
      (padded ? first < candidate.in() || first >= 2 * candidate.in() : first != candidate.in()))
    fail_input("{}: the modes multiply to {} and {}, but the weight is {} x {}", where, first, second, candidate.in(),
               candidate.out());
  if (!plan.layout.ranks.empty()) check_ranks(plan.layout, where);
}

std::vector<io::TensorToWrite> tensors_of(const io::ChainSpec& chain, io::StoredType type) {
  const tt::Layout& layout = chain.layout;
  std::vector<io::TensorToWrite> tensors;
  for (std::size_t k = 0; k < layout.cores(); ++k) tensors.push_back({chain.core_name(k), type, layout.core_shape(k)});
  if (layout.sorted) tensors.push_back({chain.order_name(), io::StoredType::I32, {chain.rows()}});
  if (layout.gauge) tensors.push_back({chain.gauge_name(), io::StoredType::I32, {layout.ranks[layout.middle()]}});
  if (layout.exact_rows > 0) {
    tensors.push_back({chain.exact_ids_name(), io::StoredType::I32, {layout.exact_rows}});
    tensors.push_back({chain.exact_rows_name(), type, {layout.exact_rows, chain.columns()}});
  }
  return tensors;
}

std::uint64_t chain_bytes(const io::ChainSpec& chain, io::StoredType type) {
  std::uint64_t bytes = 0;
  for (const io::TensorToWrite& tensor : tensors_of(chain, type))
    bytes += static_cast<std::uint64_t>(io::elements_of(tensor.shape)) * io::size_of(tensor.type);
  return bytes;
}

std::uint64_t planned_bytes(const LayerPlan& plan, const Candidate& candidate) {
  return plan.form == PlannedForm::keep_dense ? candidate.bytes()
                                              : chain_bytes(chain_of(plan, candidate), candidate.type);
}

Json to_json(const Plan& plan, const std::vector<Candidate>& candidates) {
  Json json{{"comera_plan", 1}};
  if (plan.ratio > 0) json["ratio"] = plan.ratio;
  json["layers"] = Json::array();
  for (std::size_t i = 0; i < plan.layers.size(); ++i) {
    const LayerPlan& layer = plan.layers[i];
    Json entry{{"name", layer.name}, {"shape", candidates[i].shape}, {"form", name_of(layer.form)}};
    if (has_modes(layer.form)) {
      const bool is_tt = layer.form == PlannedForm::tt;
      entry[is_tt ? "in_modes" : "row_modes"] = layer.layout.in_modes();
      entry[is_tt ? "out_modes" : "column_modes"] = layer.layout.out_modes();
    }
    if (layer.form != PlannedForm::keep_dense) {
      if (has_modes(layer.form))
        entry["ranks"] = chain_of(layer, candidates[i]).layout.ranks;
      else
        entry["rank"] = layer.rank;
      if (!candidates[i].table) entry["gauge"] = layer.layout.gauge;
      if (layer.layout.exact_rows > 0) entry["exact_rows"] = layer.layout.exact_rows;
    }
    if (!layer.reason.empty()) entry["reason"] = layer.reason;
    json["layers"].push_back(std::move(entry));
  }
  return json;
}

Plan parse_plan(const std::string& text, const std::string& file, const std::vector<Candidate>& candidates) {
  const Json json = io::parse_json(text, file, 8);
  check_keys(json, {"comera_plan", "ratio", "layers"}, file);
  const auto version = json.find("comera_plan");
  if (version == json.end() || *version != 1)
    fail_input("{}: \"comera_plan\" must be 1; is this a file that --dump-plan wrote?", file);
  const auto layers = json.find("layers");
  if (layers == json.end() || !layers->is_array()) fail_input("{}: \"layers\" must be a list", file);
  Plan plan;
  if (const auto ratio = json.find("ratio"); ratio != json.end()) {
    if (!ratio->is_number() || !(*ratio > 0)) fail_input("{}: \"ratio\" must be a number above 0", file);
    plan.ratio = ratio->get<double>();
  }
  for (const Candidate& candidate : candidates)
    plan.layers.push_back({.name = candidate.name, .reason = "not in the plan"});
  std::set<std::string> seen;
  for (std::size_t i = 0; i < layers->size(); ++i) {
    std::string where = fmt::format("{}: layers[{}]", file, i);
    check_keys((*layers)[i], layer_keys, where);
    const std::string name = text_at((*layers)[i], "name", where);
    where += fmt::format(" ({})", printable(name));
    const auto found = std::find_if(candidates.begin(), candidates.end(),
                                    [&](const Candidate& candidate) { return candidate.name == name; });
    if (found == candidates.end()) fail_input("{}: the model has no such weight to compress", where);
    if (!seen.insert(name).second) fail_input("{}: is there twice", where);
    plan.layers[static_cast<std::size_t>(found - candidates.begin())] = layer_from((*layers)[i], *found, where);
  }
  return plan;
}

}  // namespace comera::compress
