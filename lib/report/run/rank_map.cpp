#include "lib/report/run/rank_map.h"

#include <cmath>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace comera::report {
namespace {

// The mean of the inner ranks in a layer of report.json; NaN without any.
double mean_rank(const Json& layer) {
  const Json ranks = layer.is_object() ? layer.value("ranks", Json()) : Json();
  if (!ranks.is_array() || ranks.size() < 3) return NAN;
  double sum = 0;
  for (std::size_t k = 1; k + 1 < ranks.size(); ++k) sum += ranks[k].is_number() ? ranks[k].get<double>() : NAN;
  return sum / static_cast<double>(ranks.size() - 2);
}

// By the names of the weights that have inner ranks.
std::map<std::string, double> mean_ranks(const FinishedRun& run) {
  std::map<std::string, double> ranks;
  const Json layers = run.report.value("layers", Json());
  if (!layers.is_array()) return ranks;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const double rank = mean_rank(layers[i]);
    const Json name = std::isfinite(rank) ? layers[i].value("name", Json()) : Json();
    if (name.is_string()) ranks[name.get<std::string>()] = rank;
  }
  return ranks;
}

std::string without_suffix(std::string name) {
  constexpr std::string_view suffix = ".weight";
  if (name.ends_with(suffix)) name.resize(name.size() - suffix.size());
  return name;
}

}  // namespace

HeatMap rank_map(std::span<const FinishedRun> runs) {
  std::map<std::string, std::vector<double>> found;
  HeatMap map{.title = "mean rank of each weight", .columns = {}, .rows = {}, .values = {}};
  for (const FinishedRun& run : runs) {
    const auto ranks = mean_ranks(run);
    if (ranks.empty()) continue;
    for (const auto& [name, rank] : ranks) found[name].resize(map.columns.size(), NAN), found[name].push_back(rank);
    map.columns.push_back(run.folder);
  }
  for (auto& [name, ranks] : found) {
    ranks.resize(map.columns.size(), NAN);
    map.rows.push_back(without_suffix(name));
    map.values.push_back(std::move(ranks));
  }
  return map;
}

}  // namespace comera::report
