#include "lib/compress/plan.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "lib/core/error.h"
#include "lib/core/log.h"
#include "lib/core/suggest.h"
#include "lib/tt/modes.h"

namespace comera::compress {
namespace {

using io::FileShape;
using io::Json;

constexpr PlannedForm forms[] = {PlannedForm::keep_dense, PlannedForm::automatic, PlannedForm::tt, PlannedForm::ttm, PlannedForm::lowrank};
const std::vector<std::string> layer_keys{"name", "shape", "form", "rank", "in_modes", "out_modes", "row_modes", "column_modes", "gauge", "reason"};

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

LayerPlan layer_from(const Json& json, const Candidate& candidate, const std::string& where) {
  LayerPlan plan;
  plan.name = candidate.name;
  const std::string form = text_at(json, "form", where);
  if (!form_named(form)) fail_input("{}: there is no form '{}'; use dense, auto, tt, ttm or lowrank", where, printable(form));
  plan.form = *form_named(form);
  if (json.contains("shape") && sizes_at(json, "shape", where) != candidate.shape)
    fail_input("{}: shape is not {}, which the model has; is the plan that of another model?", where, io::to_string(candidate.shape));
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
  const auto rank = json.find("rank");
  if (rank == json.end() || !rank->is_number_integer() || *rank < 1 || *rank > (std::int64_t{1} << 40))
    fail_input("{}: \"rank\" must be a whole number from 1", where);
  plan.rank = rank->get<std::int64_t>();
  check_layer(plan, candidate, where);
  return plan;
}

FileShape parse_sizes(std::string_view text, const std::string& rule) {
  FileShape sizes;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find_first_of("x,"));
    std::int64_t size = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), size);
    if (error != std::errc() || end != word.data() + word.size() || size < 1 || size > (std::int64_t{1} << 40))
      fail_input("[tensorize] --layer '{}': '{}' is no mode; write modes like 24x16|384", rule, word);
    sizes.push_back(size);
    text.remove_prefix(std::min(text.size(), word.size() + 1));
  }
  return sizes;
}

void parse_rule_item(LayerRule& rule, std::string_view key, std::string_view value) {
  if (key == "rank") {
    std::int64_t rank = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), rank);
    if (error != std::errc() || end != value.data() + value.size() || rank < 1)
      fail_input("[tensorize] --layer '{}': '{}' is not a rank; write a whole number from 1", rule.text, value);
    rule.rank = rank;
  } else if (key == "form") {
    rule.form = form_named(value);
    if (!rule.form) fail_input("[tensorize] --layer '{}': there is no form '{}'; use dense, auto, tt, ttm or lowrank", rule.text, value);
  } else if (key == "modes") {
    const std::size_t bar = value.find('|');
    if (bar == std::string_view::npos)
      fail_input("[tensorize] --layer '{}': modes lack the '|' between those of the input and of the output", rule.text);
    rule.in_modes = parse_sizes(value.substr(0, bar), rule.text);
    rule.out_modes = parse_sizes(value.substr(bar + 1), rule.text);
  } else if (key == "gauge" && (value == "on" || value == "off")) {
    rule.gauge = value == "on";
  } else {
    fail_input("[tensorize] --layer '{}': '{}:{}' is not known; use rank:, form:, modes: or gauge:on|off, separated by ';'", rule.text, key, value);
  }
}

tt::Sizes entry_sizes(const LayerPlan& plan) {
  tt::Sizes modes = plan.in_modes;
  modes.insert(modes.end(), plan.out_modes.begin(), plan.out_modes.end());
  return plan.form == PlannedForm::ttm ? tt::table_entry_sizes(modes) : modes;
}

// Every inner bond as large as its neighbours allow, the middle one (of a ttm: each) at most `rank`.
tt::Sizes ranks_of(const LayerPlan& plan, const tt::Sizes& sizes) {
  tt::Sizes ranks = tt::largest_ranks(sizes);
  for (std::size_t k = 1; k + 1 < ranks.size(); ++k)
    if (plan.form == PlannedForm::ttm || k == plan.in_modes.size()) ranks[k] = std::min(ranks[k], plan.rank);
  for (std::size_t k = 1; k < ranks.size(); ++k) ranks[k] = std::min(ranks[k], ranks[k - 1] * sizes[k - 1]);
  for (std::size_t k = ranks.size() - 1; k-- > 0;) ranks[k] = std::min(ranks[k], ranks[k + 1] * sizes[k]);
  return ranks;
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
  const std::size_t equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0)
    fail_input("[tensorize] --layer '{}' names no weights; write 'glob=rank:16' or 'glob=form:dense'", text);
  LayerRule rule;
  rule.text = text;
  rule.pattern = text.substr(0, equals);
  std::string_view rest = std::string_view(text).substr(equals + 1);
  while (!rest.empty()) {
    const std::string_view item = rest.substr(0, rest.find(';'));
    rest.remove_prefix(std::min(rest.size(), item.size() + 1));
    const std::size_t colon = item.find(':');
    parse_rule_item(rule, item.substr(0, colon), colon == std::string_view::npos ? "" : item.substr(colon + 1));
  }
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
  if (chain.kind == io::ChainKind::ttm) return chain;
  chain.in_count = shaped.in_modes.size();
  chain.conv1d = candidate.conv1d;
  chain.gauge = plan.gauge && shaped.out_modes.size() == 1;
  return chain;
}

void check_layer(const LayerPlan& plan, const Candidate& candidate, const std::string& where) {
  if (plan.form == PlannedForm::keep_dense) return;
  if (plan.form == PlannedForm::ttm && !candidate.table) fail_input("{}: ttm is a form of tables; use tt, lowrank or auto for a linear layer", where);
  if (plan.form == PlannedForm::tt && candidate.table) fail_input("{}: tt is a form of linear layers; use ttm, lowrank or auto for a table", where);
  const std::int64_t largest = std::min(candidate.in(), candidate.out());
  if (plan.rank < 1 || plan.rank > largest)
    fail_input("{}: rank {} is not between 1 and {}, the largest possible for {} x {}", where, plan.rank, largest, candidate.in(), candidate.out());
  if (!has_modes(plan.form)) return;
  const auto bounded = [](const FileShape& modes) {
    std::int64_t product = 1;
    for (const std::int64_t mode : modes) product = product > (std::int64_t{1} << 40) / mode ? (std::int64_t{1} << 40) + 1 : product * mode;
    return product;
  };
  const std::int64_t first = bounded(plan.in_modes), second = bounded(plan.out_modes);
  const bool padded = plan.form == PlannedForm::ttm;
  if (padded && plan.in_modes.size() != plan.out_modes.size()) fail_input("{}: row and column modes must be equally many", where);
  if (second != candidate.out() || (padded ? first < candidate.in() || first >= 2 * candidate.in() : first != candidate.in()))
    fail_input("{}: the modes multiply to {} and {}, but the weight is {} x {}", where, first, second, candidate.in(), candidate.out());
}

std::vector<io::TensorToWrite> tensors_of(const io::ChainSpec& chain, io::StoredType type) {
  std::vector<io::TensorToWrite> tensors;
  for (std::size_t k = 0; k < chain.cores(); ++k) tensors.push_back({chain.core_name(k), type, chain.core_shape(k)});
  if (chain.sorted) tensors.push_back({chain.order_name(), io::StoredType::I32, {chain.in()}});
  if (chain.gauge) tensors.push_back({chain.gauge_name(), io::StoredType::I32, {chain.ranks[chain.middle()]}});
  return tensors;
}

std::uint64_t chain_bytes(const io::ChainSpec& chain, io::StoredType type) {
  std::uint64_t bytes = 0;
  for (const io::TensorToWrite& tensor : tensors_of(chain, type))
    bytes += static_cast<std::uint64_t>(io::elements_of(tensor.shape)) * io::size_of(tensor.type);
  return bytes;
}

std::uint64_t planned_bytes(const LayerPlan& plan, const Candidate& candidate) {
  return plan.form == PlannedForm::keep_dense ? candidate.bytes() : chain_bytes(chain_of(plan, candidate), candidate.type);
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
      entry["rank"] = layer.rank;
      if (!candidates[i].table) entry["gauge"] = layer.gauge;
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
  if (version == json.end() || *version != 1) fail_input("{}: \"comera_plan\" must be 1; is this a file that --dump-plan wrote?", file);
  const auto layers = json.find("layers");
  if (layers == json.end() || !layers->is_array()) fail_input("{}: \"layers\" must be a list", file);
  Plan plan;
  for (const Candidate& candidate : candidates) plan.layers.push_back({candidate.name, PlannedForm::keep_dense, {}, {}, 0, true, "not in the plan"});
  std::set<std::string> seen;
  for (std::size_t i = 0; i < layers->size(); ++i) {
    std::string where = fmt::format("{}: layers[{}]", file, i);
    check_keys((*layers)[i], layer_keys, where);
    const std::string name = text_at((*layers)[i], "name", where);
    where += fmt::format(" ({})", printable(name));
    const auto found = std::find_if(candidates.begin(), candidates.end(), [&](const Candidate& candidate) { return candidate.name == name; });
    if (found == candidates.end()) fail_input("{}: the model has no such weight to compress", where);
    if (!seen.insert(name).second) fail_input("{}: is there twice", where);
    plan.layers[static_cast<std::size_t>(found - candidates.begin())] = layer_from((*layers)[i], *found, where);
  }
  return plan;
}

}  // namespace comera::compress
