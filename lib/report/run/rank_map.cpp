#include "lib/report/run/rank_map.h"

#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "lib/report/output/fold.h"

namespace comera::report {
namespace {

// A list of an object; empty if there is none.
const Json& list_of(const Json& json, const char* key) {
  static const Json nothing = Json::array();
  return json.is_object() && json.contains(key) && json[key].is_array() ? json[key] : nothing;
}

// The mean of the inner ranks in a layer of report.json; NaN without any.
double mean_rank(const Json& layer) {
  const Json& ranks = list_of(layer, "ranks");
  if (ranks.size() < 3) return NAN;
  double sum = 0;
  for (std::size_t k = 1; k + 1 < ranks.size(); ++k) sum += ranks[k].is_number() ? ranks[k].get<double>() : NAN;
  return sum / static_cast<double>(ranks.size() - 2);
}

// By the names of the weights that have inner ranks.
std::map<std::string, double> mean_ranks(const FinishedRun& run) {
  std::map<std::string, double> ranks;
  for (const Json& layer : list_of(run.report, "layers")) {
    const double rank = mean_rank(layer);
    if (std::isfinite(rank) && layer.contains("name") && layer["name"].is_string())
      ranks[layer["name"].get<std::string>()] = rank;
  }
  return ranks;
}

}  // namespace

HeatMap rank_map(std::span<const FinishedRun> runs) {
  HeatMap map{.title = "mean rank of each weight", .columns = {}, .rows = {}, .values = {}};
  std::map<std::string, std::vector<double>> found;
  for (const FinishedRun& run : runs) {
    const auto ranks = mean_ranks(run);
    if (ranks.empty()) continue;
    for (const auto& [name, rank] : ranks) {
      std::vector<double>& row = found[name];
      row.resize(map.columns.size(), NAN);
      row.push_back(rank);
    }
    map.columns.push_back(run.folder);
  }
  for (auto& [name, ranks] : found) {
    ranks.resize(map.columns.size(), NAN);
    map.rows.push_back(name);
    map.values.push_back(std::move(ranks));
  }
  map.rows = short_names(map.rows);
  return map;
}

}  // namespace comera::report
