#include "lib/compress/plan/plan_file.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <unordered_map>

#include "lib/core/error.h"
#include "lib/core/options/suggest.h"
#include "lib/core/terminal/log.h"

namespace comera::compress {
namespace {

using io::FileShape;
using io::Json;

const std::vector<std::string> layer_keys{"name",       "shape",     "form",      "rank",         "ranks",
                                          "in_modes",   "out_modes", "row_modes", "column_modes", "gauge",
                                          "exact_rows", "base",      "cores",     "reason"};

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

// Reads either "rank", one rank for the middle bond (ttm: for every bond), or "ranks", the rank of every bond.
void read_ranks(const Json& json, LayerPlan& plan, const std::string& where) {
  if (!json.contains("ranks")) {
    const auto rank = json.find("rank");
    const bool good = rank != json.end() && rank->is_number_integer() && *rank >= 1 && *rank <= (std::int64_t{1} << 40);
    if (!good) fail_input("{}: \"rank\" must be a whole number from 1", where);
    plan.rank = rank->get<std::int64_t>();
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
    fail_input("{}: there is no form '{}'; use dense, auto, tt, ttm, lowrank or grid", where, printable(form));
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
  if (plan.form == PlannedForm::grid) {
    const std::string base = text_at(json, "base", where);
    if (!quant::grid_named(base))
      fail_input("{}: there is no grid '{}'; use q8_0, q4_1, q4_0, q3_0 or q2_0, the last three also with g64 or g128",
                 where, printable(base));
    plan.grid = *quant::grid_named(base);
  }
  if (json.contains("cores")) {
    const std::string cores = text_at(json, "cores", where);
    plan.cores = quant::grid_named(cores);
    if (!plan.cores) fail_input("{}: there is no grid '{}' for cores; use q8_0 or q4_0", where, printable(cores));
  }
  if (const auto found = json.find("exact_rows"); found != json.end()) {
    if (!found->is_number_integer()) fail_input("{}: \"exact_rows\" must be a whole number", where);
    plan.layout.exact_rows = found->get<std::int64_t>();
  }
  const bool without_rank = plan.form == PlannedForm::grid && (!json.contains("rank") || json["rank"] == 0);
  if (!without_rank) read_ranks(json, plan, where);
  check_layer(plan, candidate, where);
  return plan;
}

io::Json entry_of(const Candidate& candidate, const LayerPlan& plan) {
  Json entry{{"name", plan.name}, {"shape", candidate.shape}, {"form", name_of(plan.form)}};
  if (has_modes(plan.form)) {
    const bool is_tt = plan.form == PlannedForm::tt;
    entry[is_tt ? "in_modes" : "row_modes"] = plan.layout.in_modes();
    entry[is_tt ? "out_modes" : "column_modes"] = plan.layout.out_modes();
  }
  if (plan.form != PlannedForm::keep_dense) {
    if (has_modes(plan.form))
      entry["ranks"] = chain_of(plan, candidate).layout.ranks;
    else
      entry["rank"] = plan.rank;
    if (plan.form == PlannedForm::grid) entry["base"] = quant::name_of(plan.grid);
    if (!candidate.table && plan.form != PlannedForm::grid) entry["gauge"] = plan.layout.gauge;
    if (plan.cores && plan.rank > 0) entry["cores"] = quant::name_of(*plan.cores);
    if (plan.layout.exact_rows > 0) entry["exact_rows"] = plan.layout.exact_rows;
  }
  if (!plan.reason.empty()) entry["reason"] = plan.reason;
  return entry;
}

// Plans by the names of the layers.
std::map<std::string, LayerPlan> plans_in(const Json& layers, const std::string& file,
                                          const std::vector<LayerJob>& jobs) {
  std::unordered_map<std::string_view, const Candidate*> candidates;
  for (const LayerJob& job : jobs) candidates[job.candidate.name] = &job.candidate;
  std::map<std::string, LayerPlan> plans;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    std::string where = fmt::format("{}: layers[{}]", file, i);
    check_keys(layers[i], layer_keys, where);
    const std::string name = text_at(layers[i], "name", where);
    where += fmt::format(" ({})", printable(name));
    const auto found = candidates.find(name);
    if (found == candidates.end()) fail_input("{}: the model has no such weight to compress", where);
    if (plans.contains(name)) fail_input("{}: is there twice", where);
    plans[name] = layer_from(layers[i], *found->second, where);
  }
  return plans;
}

}  // namespace

io::Json plan_file(const std::vector<LayerJob>& jobs, std::size_t size, double ratio) {
  Json json{{"comera_plan", 1}};
  if (ratio > 0) json["ratio"] = ratio;
  json["layers"] = Json::array();
  for (const LayerJob& job : jobs) json["layers"].push_back(entry_of(job.candidate, job.sizes[size].plan));
  return json;
}

double read_plan_file(const std::string& text, const std::string& file, std::vector<LayerJob>& jobs) {
  const Json json = io::parse_json(text, file, 8);
  check_keys(json, {"comera_plan", "ratio", "layers"}, file);
  const auto version = json.find("comera_plan");
  if (version == json.end() || *version != 1)
    fail_input("{}: \"comera_plan\" must be 1; is this a file that --dump-plan wrote?", file);
  const auto layers = json.find("layers");
  if (layers == json.end() || !layers->is_array()) fail_input("{}: \"layers\" must be a list", file);
  const auto ratio = json.find("ratio");
  if (ratio != json.end() && (!ratio->is_number() || !(*ratio > 0)))
    fail_input("{}: \"ratio\" must be a number above 0", file);
  std::map<std::string, LayerPlan> plans = plans_in(*layers, file, jobs);
  for (LayerJob& job : jobs) {
    const auto found = plans.find(job.candidate.name);
    job.sizes.push_back({.plan = found != plans.end()
                                     ? std::move(found->second)
                                     : LayerPlan{.name = job.candidate.name, .reason = "not in the plan"}});
  }
  return ratio != json.end() ? ratio->get<double>() : 0;
}

}  // namespace comera::compress
