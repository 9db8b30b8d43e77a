#include "lib/report/run/run_history.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "lib/core/files/file.h"
#include "lib/core/files/regular_file.h"
#include "lib/report/bench/bench.h"

namespace comera::report {
namespace {

const Json* find(const Json& line, std::string_view path) {
  const Json* at = &line;
  while (true) {
    const std::size_t dot = path.find('.');
    const auto found = at->is_object() ? at->find(std::string(path.substr(0, dot))) : at->end();
    if (!at->is_object() || found == at->end()) return nullptr;
    at = &*found;
    if (dot == std::string_view::npos) return at;
    path.remove_prefix(dot + 1);
  }
}

double step_of(const Json& line) {
  const Json* step = find(line, "step");
  return step && step->is_number() ? step->get<double>() : 0;
}

struct Curve {
  const char* title;
  Unit unit;
  std::vector<std::pair<const char*, const char*>> lines;  // name, path
  bool from_zero = false, points = false;
  bool may_stand_still = false;  // shown even if it never changes
};

const std::vector<Curve>& known_curves() {
  static const std::vector<Curve> curves = {
      {"loss", Unit::plain, {{"training", "loss"}, {"dev", "dev.loss"}}, false, false, true},
      {"dev accuracy", Unit::share, {{"accuracy", "dev.accuracy"}}, false, true, true},
      {"dev correlation", Unit::plain, {{"Pearson", "dev.pearson"}, {"Spearman", "dev.spearman"}}, false, true, true},
      {"dev error (RMSE)", Unit::plain, {{"RMSE", "dev.rmse"}}, true, true, true},
      {"dev AUC", Unit::plain, {{"AUC", "dev.auc"}}, false, true, true},
      {"dev NCE", Unit::plain, {{"NCE", "dev.nce"}}, false, true, true},
      {"mean rank", Unit::plain, {{"rank", "rank"}}, true},
      {"ratio (dense / compressed)", Unit::ratio, {{"ratio", "ratio"}}},
      {"planned memory of a step", Unit::bytes, {{"weights", "memory.weights"}, {"all", "memory.peak"}}, true},
      {"time per step, ms", Unit::ms, {{"step", "step_ms"}}, true, false, true}};
  return curves;
}

Chart chart_of(const RunHistory& history, const Curve& curve) {
  Chart chart{.title = curve.title, .unit = curve.unit, .from_zero = curve.from_zero};
  for (const auto& [name, path] : curve.lines) {
    Series series = history.curve(name, path);
    if (series.x.empty()) continue;
    series.points = curve.points || std::string_view(path).starts_with("dev.");
    chart.series.push_back(std::move(series));
  }
  return chart;
}

// Constant numbers are facts of a page and get no chart: the ratio of a dense run, its memory. Two runs may have
// different constants.
bool changes(const Chart& chart, bool two_runs) {
  return std::any_of(chart.series.begin(), chart.series.end(), [&](const Series& series) {
    const double first = two_runs ? chart.series.front().y.front() : series.y.front();
    return std::any_of(series.y.begin(), series.y.end(), [&](double y) { return y != first; });
  });
}

// The inner ranks of every tensor train over the steps.
std::map<std::string, std::vector<Series>> rank_series(const RunHistory& history) {
  std::map<std::string, std::vector<Series>> all;
  for (const Json& line : history.lines) {
    const Json* ranks = find(line, "ranks");
    if (!ranks || !ranks->is_object()) continue;
    for (const auto& [name, list] : ranks->items()) {
      if (!list.is_array()) continue;
      auto& bonds = all[name];
      for (std::size_t k = 1; k + 1 < list.size(); ++k) {
        if (bonds.size() < k) bonds.push_back({.name = "bond " + std::to_string(k), .x = {}, .y = {}, .steps = true});
        if (!list[k].is_number()) continue;
        bonds[k - 1].x.push_back(step_of(line));
        bonds[k - 1].y.push_back(list[k].get<double>());
      }
    }
  }
  // Ranks are written only when they change, so the last ones hold to the end.
  for (auto& [name, bonds] : all)
    for (Series& bond : bonds) {
      const double last = step_of(history.lines.back());
      if (bond.x.empty() || bond.x.back() >= last) continue;
      bond.x.push_back(last);
      bond.y.push_back(bond.y.back());
    }
  return all;
}

Json series_json(const Series& series) {
  Json json;
  json["step"] = series.x;
  json["value"] = Json::array();
  for (const double y : series.y) json["value"].push_back(to_json(Cell(y)));
  return json;
}

}  // namespace

Series RunHistory::curve(const std::string& name, std::string_view path) const {
  Series series{.name = name, .x = {}, .y = {}};
  for (const Json& line : lines) {
    const Json* value = find(line, path);
    if (!value || !value->is_number()) continue;
    series.x.push_back(step_of(line));
    series.y.push_back(value->get<double>());
  }
  return series;
}

const Json* RunHistory::last_with(std::string_view path) const {
  for (auto line = lines.rbegin(); line != lines.rend(); ++line)
    if (const Json* value = find(*line, path)) return value;
  return nullptr;
}

namespace {

// Takes the blocks of metrics.jsonl. Of many training reports every second one is dropped, again and again, so that a
// long run takes no more memory than a short one; evaluations, events, changes of ranks and the last report all stay.
class HistoryReader {
 public:
  explicit HistoryReader(std::string file_name) : file_name_(std::move(file_name)) {}

  void take(std::string_view block) {
    for (std::size_t end; (end = block.find('\n')) != std::string_view::npos; block.remove_prefix(end + 1)) {
      rest_ += block.substr(0, end);
      add_line();
      rest_.clear();
    }
    rest_ += block;  // at the end of the file: a line that was cut by a kill
  }

  RunHistory history() {
    if (left_out_) history_.lines.push_back(*std::move(left_out_));
    return std::move(history_);
  }

 private:
  static bool is_plain(const Json& line) { return !find(line, "event") && !find(line, "dev") && !find(line, "ranks"); }

  void add_line() {
    ++number_;
    if (rest_.empty()) return;
    Json line = io::parse_json(rest_, file_name_ + ":" + std::to_string(number_));
    left_out_.reset();
    if (!is_plain(line)) return history_.lines.push_back(std::move(line));
    if (plain_++ % every_ != 0) {
      left_out_ = std::move(line);
      return;
    }
    history_.lines.push_back(std::move(line));
    if (plain_ / every_ < most_reports) return;
    every_ *= 2;
    std::int64_t at = 0;
    std::erase_if(history_.lines, [&](const Json& kept) { return is_plain(kept) && at++ % 2 != 0; });
  }

  std::string file_name_, rest_;
  RunHistory history_;
  std::optional<Json> left_out_;  // the last line, if it is dropped
  int number_ = 0;
  std::int64_t plain_ = 0, every_ = 1;
};

}  // namespace

RunHistory parse_run_history(std::string_view text, const std::string& file_name) {
  HistoryReader reader(file_name);
  reader.take(text);
  return reader.history();
}

std::optional<RunHistory> read_run_history(const std::string& path) {
  if (!is_folder(path)) return std::nullopt;
  const std::string file = join_path(path, "metrics.jsonl");
  if (!path_exists(file)) return std::nullopt;
  HistoryReader reader(file);
  read_blocks(file, [&](std::string_view block) { reader.take(block); });
  return reader.history();
}

double RunHistory::closing(std::string_view path) const {
  std::vector<double> values = curve("", path).y;
  if (values.empty()) return NAN;
  values.erase(values.begin(), values.end() - static_cast<std::ptrdiff_t>((values.size() + 3) / 4));
  return spread_of(values).median;
}

std::vector<Chart> curves_of(const RunHistory& history) {
  std::vector<Chart> charts;
  for (const Curve& curve : known_curves()) {
    Chart chart = chart_of(history, curve);
    if (!chart.series.empty() && (curve.may_stand_still || changes(chart, false))) charts.push_back(std::move(chart));
  }
  return charts;
}

std::vector<Chart> compared_curves(const RunHistory& a, const std::string& name_a, const RunHistory& b,
                                   const std::string& name_b) {
  std::vector<Chart> charts;
  for (const Curve& curve : known_curves()) {
    Chart chart{.title = curve.title, .unit = curve.unit, .from_zero = curve.from_zero};
    const auto& [name, path] = curve.lines.back();
    for (const auto& [run, title] : {std::pair(&a, &name_a), {&b, &name_b}})
      if (Series series = run->curve(*title, path); !series.x.empty()) chart.series.push_back(std::move(series));
    if (curve.lines.size() > 1) chart.title += std::string(", ") + name;
    if (!chart.series.empty() && (curve.may_stand_still || changes(chart, true))) charts.push_back(std::move(chart));
  }
  return charts;
}

std::vector<Chart> rank_charts(const RunHistory& history) {
  std::vector<Chart> charts;
  for (auto& [name, series] : rank_series(history)) {
    Chart chart{
        .title = name, .series = std::move(series), .from_zero = true, .legend = false, .width = 220, .height = 120};
    charts.push_back(std::move(chart));
  }
  return charts;
}

Json to_json(const RunHistory& history) {
  Json json = Json::object();
  for (const Curve& curve : known_curves())
    for (const auto& [name, path] : curve.lines)
      if (const Series series = history.curve(name, path); !series.x.empty()) json[path] = series_json(series);
  Json ranks = Json::object();
  for (const auto& [name, bonds] : rank_series(history)) {
    Json of_chain = Json::object();
    of_chain["step"] = bonds.empty() ? std::vector<double>{} : bonds.front().x;
    for (const Series& bond : bonds) of_chain["bonds"].push_back(bond.y);
    ranks.append_member(name, std::move(of_chain));
  }
  if (!ranks.empty()) json["ranks"] = std::move(ranks);
  return json;
}

}  // namespace comera::report
