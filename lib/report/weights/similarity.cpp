#include "lib/report/weights/similarity.h"

#include <algorithm>

namespace comera::report {
namespace {

double sentences_per_second(const engine::Similarity& similarity) {
  return 2 * static_cast<double>(similarity.pairs) / std::max(similarity.seconds, 1e-9);
}

std::vector<Metric> metrics_of(const engine::Similarity& similarity) {
  return {{"spearman", similarity.spearman},
          {"spearman_error", similarity.spearman_error},
          {"pearson", similarity.pearson}};
}

}  // namespace

Table to_table(const engine::Similarity& similarity) {
  Table table;
  table.columns = {{"pairs", "pairs", Unit::count}};
  table.rows.push_back({similarity.pairs});
  for (const Metric& metric : metrics_of(similarity)) {
    table.columns.push_back({metric.first, metric.first == "spearman_error" ? "+-" : metric.first, Unit::plain});
    table.rows[0].emplace_back(metric.second);
  }
  table.columns.push_back({"sentences_per_second", "sentences/s", Unit::plain});
  table.rows[0].emplace_back(sentences_per_second(similarity));
  return table;
}

Json to_json(const engine::Similarity& similarity) {
  Json json = document("evaluate");
  json["task"] = "embed";
  json["pairs"] = similarity.pairs;
  for (const Metric& metric : metrics_of(similarity)) json[metric.first] = to_json(Cell(metric.second));
  json["seconds"] = similarity.seconds;
  json["sentences_per_second"] = sentences_per_second(similarity);
  return json;
}

void require_metric(const engine::Similarity& similarity, const Requirement& requirement) {
  require_metric(metrics_of(similarity), requirement);
}

}  // namespace comera::report
