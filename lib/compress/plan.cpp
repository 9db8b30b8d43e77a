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
  plan.ranks = sizes_at(json, "ranks", where);
  const std::size_t cores =
      plan.form == PlannedForm::tt ? plan.in_modes.size() + plan.out_modes.size() : plan.in_modes.size();
  if (plan.ranks.size() != cores + 1)
    fail_input("{}: {} \"ranks\" came, but {} cores have {} bonds, both ends included", where, plan.ranks.size(), cores,
               cores + 1);
  plan.rank = plan.form == PlannedForm::tt ? plan.ranks[plan.in_modes.size()]
                                           : *std::max_element(plan.ranks.begin(), plan.ranks.end());
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
    const bool tt = plan.form == PlannedForm::tt;
    plan.in_modes = sizes_at(json, tt ? "in_modes" : "row_modes", where);
    plan.out_modes = sizes_at(json, tt ? "out_modes" : "column_modes", where);
  }
  if (json.contains("reason")) plan.reason = text_at(json, "reason", where);
  if (const auto found = json.find("gauge"); found != json.end()) {
    if (!found->is_boolean()) fail_input("{}: \"gauge\" must be true or false", where);
    plan.gauge = found->get<bool>();
  }
  if (plan.form == PlannedForm::keep_dense) return plan;
  if (const auto found = json.find("exact_rows"); found != json.end()) {
    if (!found->is_number_integer()) fail_input("{}: \"exact_rows\" must be a whole number", where);
    plan.exact = found->get<std::int64_t>();
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

tt::Sizes entry_sizes(const LayerPlan& plan) {
  tt::Sizes modes = plan.in_modes;
  modes.insert(modes.end(), plan.out_modes.begin(), plan.out_modes.end());
  return plan.form == PlannedForm::ttm ? tt::table_entry_sizes(modes) : modes;
}

// The rank of every bond. The middle bond (ttm: every inner bond) is at most `rank`; all others are as large as their
// neighbours allow.
tt::Sizes ranks_of(const LayerPlan& plan, const tt::Sizes& sizes) {
  if (!plan.ranks.empty()) return plan.ranks;
  tt::Sizes ranks = tt::largest_ranks(sizes);
  for (std::size_t k = 1; k + 1 < ranks.size(); ++k)
    if (plan.form == PlannedForm::ttm || k == plan.in_modes.size()) ranks[k] = std::min(ranks[k], plan.rank);
  for (std::size_t k = 1; k < ranks.size(); ++k) ranks[k] = std::min(ranks[k], ranks[k - 1] * sizes[k - 1]);
  for (std::size_t k = ranks.size() - 1; k-- > 0;) ranks[k] = std::min(ranks[k], ranks[k + 1] * sizes[k]);
  return ranks;
}

// Requires that every bond is at most as large as its neighbours allow. Otherwise the chain would be smaller than the
// plan.
void check_ranks(const LayerPlan& plan, const std::string& where) {
  const tt::Sizes sizes = entry_sizes(plan);
  if (plan.ranks.front() != 1 || plan.ranks.back() != 1)
    fail_input("{}: the first and the last of \"ranks\" must be 1", where);
  const tt::Sizes largest = tt::largest_ranks(sizes);
  for (std::size_t k = 1; k + 1 < plan.ranks.size(); ++k) {
    const std::int64_t limit = std::min({largest[k], plan.ranks[k - 1] * sizes[k - 1], plan.ranks[k + 1] * sizes[k]});
    if (plan.ranks[k] > limit)
      fail_input("{}: rank {} at bond {} exceeds {}, the largest that its neighbours allow", where, plan.ranks[k], k,
                 limit);
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
  LayerPlan shaped = plan;
  if (plan.form == PlannedForm::lowrank || plan.form == PlannedForm::automatic) {
    shaped.form = candidate.table ? PlannedForm::ttm : PlannedForm::tt;
    shaped.in_modes = candidate.table ? FileShape{candidate.in(), 1} : FileShape{candidate.in()};
    shaped.out_modes = candidate.table ? FileShape{1, candidate.out()} : FileShape{candidate.out()};
  }
  io::ChainSpec chain;
  chain.name = candidate.name;
  chain.kind = shaped.form == PlannedForm::ttm ? io::ChainKind::ttm : io::ChainKind::tt;
  chain.shape = candidate.shape;
  chain.modes = shaped.in_modes;
  chain.modes.insert(chain.modes.end(), shaped.out_modes.begin(), shaped.out_modes.end());
  chain.ranks = chain.initial_ranks = ranks_of(shaped, entry_sizes(shaped));
  chain.folded = true;
  chain.bare = candidate.bare();
  chain.exact = plan.exact;
  if (chain.kind == io::ChainKind::ttm) return chain;
  chain.in_count = shaped.in_modes.size();
  chain.conv1d = candidate.conv1d;
  chain.gauge = plan.gauge && shaped.out_modes.size() == 1;
  return chain;
}

void check_layer(const LayerPlan& plan, const Candidate& candidate, const std::string& where) {
  if (plan.form == PlannedForm::keep_dense) return;
  if (plan.form == PlannedForm::ttm && !candidate.table)
    fail_input("{}: ttm is a form of tables; use tt, lowrank or auto for a linear layer", where);
  if (plan.form == PlannedForm::tt && candidate.table)
    fail_input("{}: tt is a form of linear layers; use ttm, lowrank or auto for a table", where);
  // Padding rows allow a ttm larger bonds than the table itself could fill.
  const std::int64_t largest =
      plan.ranks.empty() || plan.form == PlannedForm::tt ? std::min(candidate.in(), candidate.out()) : plan.rank;
  if (plan.rank < 1 || plan.rank > largest)
    fail_input("{}: rank {} is not between 1 and {}, the largest possible for {} x {}", where, plan.rank, largest,
               candidate.in(), candidate.out());
  if (plan.exact != 0 && !candidate.table)
    fail_input("{}: exact rows are those of a table that is looked up; a linear layer has none", where);
  if (plan.exact < 0 || (plan.exact > 0 && plan.exact >= candidate.in()))
    fail_input(
        "{}: {} exact rows are not between 0 and {}, one below the {} rows of the table; to keep all of them leave the "
        "table dense",
        where, plan.exact, candidate.in() - 1, candidate.in());
  if (!has_modes(plan.form)) return;
  const auto bounded = [](const FileShape& modes) {
    std::int64_t product = 1;
    for (const std::int64_t mode : modes)
      product = product > (std::int64_t{1} << 40) / mode ? (std::int64_t{1} << 40) + 1 : product * mode;
    return product;
  };
  const std::int64_t first = bounded(plan.in_modes), second = bounded(plan.out_modes);
  const bool padded = plan.form == PlannedForm::ttm;
  if (padded && plan.in_modes.size() != plan.out_modes.size())
    fail_input("{}: row and column modes must be equally many", where);
  if (second != candidate.out() ||
      (padded ? first < candidate.in() || first >= 2 * candidate.in() : first != candidate.in()))
    fail_input("{}: the modes multiply to {} and {}, but the weight is {} x {}", where, first, second, candidate.in(),
               candidate.out());
  if (!plan.ranks.empty()) check_ranks(plan, where);
}

std::vector<io::TensorToWrite> tensors_of(const io::ChainSpec& chain, io::StoredType type) {
  std::vector<io::TensorToWrite> tensors;
  for (std::size_t k = 0; k < chain.cores(); ++k) tensors.push_back({chain.core_name(k), type, chain.core_shape(k)});
  if (chain.sorted) tensors.push_back({chain.order_name(), io::StoredType::I32, {chain.in()}});
  if (chain.gauge) tensors.push_back({chain.gauge_name(), io::StoredType::I32, {chain.ranks[chain.middle()]}});
  if (chain.exact > 0) {
    tensors.push_back({chain.exact_ids_name(), io::StoredType::I32, {chain.exact}});
    tensors.push_back({chain.exact_rows_name(), type, {chain.exact, chain.shape[1]}});
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
      const bool tt = layer.form == PlannedForm::tt;
      entry[tt ? "in_modes" : "row_modes"] = layer.in_modes;
      entry[tt ? "out_modes" : "column_modes"] = layer.out_modes;
    }
    if (layer.form != PlannedForm::keep_dense) {
      if (has_modes(layer.form))
        entry["ranks"] = chain_of(layer, candidates[i]).ranks;
      else
        entry["rank"] = layer.rank;
      if (!candidates[i].table) entry["gauge"] = layer.gauge;
      if (layer.exact > 0) entry["exact_rows"] = layer.exact;
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
    plan.layers.push_back({candidate.name, PlannedForm::keep_dense, {}, {}, 0, true, "not in the plan"});
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
