#include "lib/report/run/runs_page.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "lib/report/output/html.h"

namespace comera::report {
namespace {

struct Measure {
  const char* key;
  bool larger_is_better;
};
constexpr Measure qualities[] = {
    {"dev_loss", false}, {"accuracy", true}, {"spearman", true}, {"auc", true}, {"nce", false}};
constexpr const char* costs[] = {"file_bytes", "measured_peak", "step_ms"};

std::vector<double> numbers_of(const Table& table, std::size_t column) {
  std::vector<double> numbers;
  for (const auto& row : table.rows) {
    const Cell& cell = row[column];
    const auto* whole = std::get_if<std::int64_t>(&cell);
    const auto* real = std::get_if<double>(&cell);
    numbers.push_back(whole ? static_cast<double>(*whole) : real ? *real : NAN);
  }
  return numbers;
}

std::vector<std::string> names_of(const Table& table) {
  std::vector<std::string> names;
  for (const auto& row : table.rows) names.push_back(std::get<std::string>(row[table.column("run")]));
  return names;
}

// The names without the folders that all runs have in common.
std::vector<std::string> without_common_folder(std::vector<std::string> names) {
  std::string_view common = names.front();
  for (const std::string& name : names) {
    const auto differ = std::mismatch(common.begin(), common.end(), name.begin(), name.end()).first;
    common = common.substr(0, static_cast<std::size_t>(differ - common.begin()));
  }
  const std::size_t folder = common.rfind('/');
  if (folder == std::string_view::npos) return names;
  const std::size_t begin = folder + 1;  // `common` is a view of the first name
  for (std::string& name : names) name.erase(0, begin);
  return names;
}

// The runs that no other beats in both, in the order of their cost.
Series front_of(const Series& runs, bool larger_is_better) {
  std::vector<std::size_t> order(runs.x.size());
  std::iota(order.begin(), order.end(), 0);
  std::erase_if(order, [&](std::size_t i) { return !std::isfinite(runs.x[i]) || !std::isfinite(runs.y[i]); });
  const auto loss = [&](std::size_t i) { return larger_is_better ? -runs.y[i] : runs.y[i]; };
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return runs.x[a] < runs.x[b] || (runs.x[a] == runs.x[b] && loss(a) < loss(b));
  });
  Series front{.name = "no run beats these in both", .x = {}, .y = {}, .steps = true};
  double best = INFINITY;
  for (const std::size_t i : order) {
    if (loss(i) >= best) continue;
    best = loss(i);
    front.x.push_back(runs.x[i]), front.y.push_back(runs.y[i]);
  }
  return front;
}

Chart chart_of(const Table& table, const Measure& quality, const char* cost) {
  const std::size_t x = table.column(cost), y = table.column(quality.key);
  Chart chart{.title = table.columns[y].title + " against " + table.columns[x].title,
              .x_label = table.columns[x].title,
              .unit = table.columns[y].unit,
              .x_unit = table.columns[x].unit,
              .legend = false,
              .width = 400,
              .height = 300};
  Series runs{.name = "runs",
              .x = numbers_of(table, x),
              .y = numbers_of(table, y),
              .names = without_common_folder(names_of(table))};
  for (std::size_t i = 0; i < runs.x.size(); ++i)
    if (!std::isfinite(runs.x[i])) runs.y[i] = NAN;
  if (std::count_if(runs.y.begin(), runs.y.end(), [](double value) { return std::isfinite(value); }) < 2) return chart;
  Series front = front_of(runs, quality.larger_is_better);
  if (front.x.size() > 1) chart.series.push_back(std::move(front));
  chart.series.push_back(std::move(runs));
  return chart;
}

}  // namespace

std::string runs_page(const Table& table, HeatMap ranks) {
  std::vector<Chart> charts;
  for (const Measure& quality : qualities)
    if (std::any_of(table.columns.begin(), table.columns.end(),
                    [&](const Column& column) { return column.key == quality.key; }))
      for (const char* cost : costs)
        if (Chart chart = chart_of(table, quality, cost); !chart.series.empty()) charts.push_back(std::move(chart));
  Page page("runs");
  page.table(table);
  if (!charts.empty())
    page.heading("Quality against cost")
        .paragraph("A line joins the runs that no other run beats in both. Memory is the measured peak.")
        .charts(charts);
  if (!ranks.rows.empty() && ranks.columns.size() > 1) {
    ranks.columns = without_common_folder(std::move(ranks.columns));
    page.heading("Ranks")
        .paragraph("The darker a cell, the more of the weight's ranks the run has, compared with the other runs.")
        .raw(heat_map(ranks));
  }
  return page.text();
}

}  // namespace comera::report
