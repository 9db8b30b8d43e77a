#include "lib/report/weights/model_report.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <unordered_set>

#include "lib/core/error.h"
#include "lib/core/glob.h"
#include "lib/core/terminal/log.h"
#include "lib/io/gguf/gguf_model.h"
#include "lib/report/output/fold.h"
#include "lib/report/weights/weight_columns.h"

namespace comera::report {
namespace {

double ratio_of(const io::TensorForm& layer) {
  if (layer.on_grid) return static_cast<double>(layer.bytes_dense) / static_cast<double>(layer.bytes);
  return layer.parameters ? static_cast<double>(layer.parameters_dense) / static_cast<double>(layer.parameters) : NAN;
}

Totals totals_of(const std::vector<io::TensorForm>& layers) {
  Totals totals;
  for (const io::TensorForm& layer : layers) totals.add(layer);
  return totals;
}

// A / B of parameters; where one of them has numbers on grids, of bytes, as the ratio of a model.
Cell quotient(const Totals& a, const Totals& b) {
  const bool bytes = a.on_grids > 0 || b.on_grids > 0;
  const auto size = [&](const Totals& one) {
    return bytes ? static_cast<double>(one.bytes) : static_cast<double>(one.parameters);
  };
  return size(b) > 0 ? Cell(size(a) / size(b)) : Cell();
}

double share_of(std::int64_t part, std::int64_t all) {
  return all ? static_cast<double>(part) / static_cast<double>(all) : 0;
}

std::vector<Cell> total_row(const std::string& name, const Totals& totals, const Totals& model) {
  const Cell none;
  return {name,
          none,
          none,
          none,
          none,
          none,
          none,
          totals.parameters,
          whole(totals.bytes),
          totals.ratio(),
          share_of(totals.parameters, model.parameters)};
}

Json totals_json(const Totals& totals) {
  Json json;
  json["parameters"] = totals.parameters;
  json["parameters_dense"] = totals.parameters_dense;
  json["rank_entries"] = totals.rank_entries;
  json["bytes"] = totals.bytes;
  json["bytes_dense"] = totals.bytes_dense;
  json["ratio"] = totals.ratio();
  return json;
}

Json layer_json(const io::TensorForm& layer, const Totals& model) {
  Json json;
  json["name"] = layer.name;
  json["kind"] = layer.kind;
  json["shape"] = layer.shape;
  json["form"] = layer.form;
  json["modes"] = layer.layout.modes;
  json["ranks"] = layer.layout.ranks;
  json["initial_ranks"] = layer.initial_ranks;
  if (layer.layout.exact_rows > 0) json["exact_rows"] = layer.layout.exact_rows;
  json["parameters"] = layer.parameters;
  json["parameters_dense"] = layer.parameters_dense;
  json["rank_entries"] = layer.rank_entries;
  json["bytes"] = layer.bytes;
  json["bytes_dense"] = layer.bytes_dense;
  json["ratio"] = to_json(Cell(ratio_of(layer)));
  json["share"] = share_of(layer.parameters, model.parameters);
  return json;
}

using Pair = std::pair<const io::TensorForm*, const io::TensorForm*>;

std::vector<Pair> pairs_of(const ModelReport& a, const ModelReport& b) {
  std::unordered_map<std::string_view, const io::TensorForm*> in_b;
  for (const io::TensorForm& layer : b.layers) in_b.emplace(layer.name, &layer);
  std::vector<Pair> pairs;
  std::unordered_set<std::string_view> in_a;
  for (const io::TensorForm& layer : a.layers) {
    const auto found = in_b.find(layer.name);
    pairs.emplace_back(&layer, found == in_b.end() ? nullptr : found->second);
    in_a.insert(layer.name);
  }
  for (const io::TensorForm& layer : b.layers)
    if (!in_a.contains(layer.name)) pairs.emplace_back(nullptr, &layer);
  return pairs;
}

Facts facts_of(const ModelReport& report) {
  return {{"parameters", show(static_cast<double>(report.totals.parameters), Unit::count)},
          {"of the dense model", show(static_cast<double>(report.totals.parameters_dense), Unit::count)},
          {"ratio", show(report.totals.ratio(), Unit::ratio)},
          {"weight files", show(static_cast<double>(report.file_bytes), Unit::bytes)}};
}

// Current ranks of the inner bonds over the initial ones. Each weight has its own scale, because the remaining share is
// the quantity of interest.
std::string bars_of(const io::TensorForm& layer) {
  RankBars bars;
  double scale = 0;
  for (const auto* ranks : {&layer.layout.ranks, &layer.initial_ranks})
    for (const std::int64_t rank : *ranks) scale = std::max(scale, static_cast<double>(rank));
  for (std::size_t k = 1; k + 1 < layer.layout.ranks.size(); ++k)
    bars.now.push_back(static_cast<double>(layer.layout.ranks[k]));
  for (std::size_t k = 1; k + 1 < layer.initial_ranks.size(); ++k)
    bars.start.push_back(static_cast<double>(layer.initial_ranks[k]));
  return "<figure><figcaption>" + escape_html(printable(short_name(layer.name))) + "</figcaption>" +
         rank_bars(bars, scale) + "</figure>\n";
}

void add_ranks(Page& page, const ModelReport& report) {
  if (std::none_of(report.layers.begin(), report.layers.end(),
                   [](const io::TensorForm& layer) { return layer.layout.ranks.size() > 2; }))
    return;
  page.heading("Ranks per bond")
      .paragraph(
          "Each bar is an inner bond of the weight: its rank now (blue, the number below) and at the start (grey).");
  page.raw("<div class=\"small\">\n");
  for (const io::TensorForm& layer : report.layers)
    if (layer.layout.ranks.size() > 2) page.raw(bars_of(layer));
  page.raw("</div>\n");
}

}  // namespace

void Totals::add(const io::TensorForm& layer) {
  parameters += layer.parameters;
  parameters_dense += layer.parameters_dense;
  rank_entries += layer.rank_entries;
  bytes += layer.bytes;
  bytes_dense += layer.bytes_dense;
  on_grids += layer.on_grid;
}

static ModelReport read_gguf_report(const std::string& path) {
  const io::GgufFile file(path);
  io::check_holds_tensors(file);
  ModelReport report;
  report.path = path;
  if (file.has("general.architecture")) report.architecture = file.text("general.architecture");
  report.file_bytes = file.bytes();
  report.layers = io::describe(file);
  report.totals = totals_of(report.layers);
  return report;
}

ModelReport read_model_report(const std::string& path) {
  if (io::is_gguf_file(path)) return read_gguf_report(path);
  const io::ModelFolder folder(path);
  ModelReport report;
  report.path = path;
  if (folder.has_config() && folder.config().contains("model_type") && folder.config()["model_type"].is_string())
    report.architecture = folder.config()["model_type"].get<std::string>();
  report.file_bytes = folder.bytes();
  report.layers = io::describe(folder);
  report.totals = totals_of(report.layers);
  report.history = read_run_history(path);
  return report;
}

void filter(ModelReport& report, const std::string& pattern) {
  const std::string glob = is_glob(pattern) ? pattern : "*" + pattern + "*";
  std::erase_if(report.layers, [&](const io::TensorForm& layer) { return !glob_match(glob, layer.name); });
  if (report.layers.empty()) fail_input("{}: --filter {} matches none of its weights", report.path, pattern);
}

void sort(ModelReport& report, std::string_view key) {
  Table table = layer_table(report);
  for (std::size_t i = 0; i < table.rows.size(); ++i) table.rows[i].emplace_back(static_cast<std::int64_t>(i));
  sort_rows(table, key);
  std::vector<io::TensorForm> sorted;
  for (const auto& row : table.rows)
    sorted.push_back(report.layers[static_cast<std::size_t>(std::get<std::int64_t>(row.back()))]);
  report.layers = std::move(sorted);
}

Table layer_table(const ModelReport& report) {
  Table table;
  table.columns = weight_columns();
  append(table.columns, {{"initial_ranks", "at the start"},
                         {"parameters", "parameters", Unit::count},
                         {"bytes", "bytes", Unit::bytes},
                         {"ratio", "ratio", Unit::ratio},
                         {"share", "share", Unit::share}});
  for (const io::TensorForm& layer : report.layers) {
    table.rows.push_back(weight_cells(layer.name, layer.kind, layer.shape, layer.form, layer.layout.modes,
                                      layer.layout.ranks, layer.layout.exact_rows));
    append(table.rows.back(), {list_or_nothing(layer.initial_ranks), layer.parameters, whole(layer.bytes),
                               ratio_of(layer), share_of(layer.parameters, report.totals.parameters)});
  }
  table.dispensable = {"initial_ranks", "share", "modes", "kind", "parameters", "shape", "ratio"};
  const Totals shown = totals_of(report.layers);
  if (shown.parameters != report.totals.parameters) table.totals.push_back(total_row("shown", shown, report.totals));
  table.totals.push_back(total_row("model", report.totals, report.totals));
  return table;
}

Json to_json(const ModelReport& report) {
  Json json = document("inspect");
  json["path"] = report.path;
  json["architecture"] = report.architecture;
  json["file_bytes"] = report.file_bytes;
  json["totals"] = totals_json(report.totals);
  json["layers"] = Json::array();
  for (const io::TensorForm& layer : report.layers) json["layers"].push_back(layer_json(layer, report.totals));
  if (report.history) json["history"] = to_json(*report.history);
  return json;
}

void add_curves_and_ranks(Page& page, const ModelReport& report) {
  if (report.history)
    if (const auto curves = curves_of(*report.history); !curves.empty()) page.heading("Training").charts(curves);
  add_ranks(page, report);
  if (!report.history) return;
  auto charts = rank_charts(*report.history);
  const auto flat = [](const Series& series) {
    return std::all_of(series.y.begin(), series.y.end(), [&](double y) { return y == series.y.front(); });
  };
  std::erase_if(charts,
                [&](const Chart& chart) { return std::all_of(chart.series.begin(), chart.series.end(), flat); });
  if (charts.empty()) return;
  std::size_t bonds = 0;
  for (Chart& chart : charts) chart.title = short_name(chart.title), bonds = std::max(bonds, chart.series.size());
  std::vector<std::string> names;
  for (std::size_t bond = 1; bond <= bonds; ++bond) names.push_back("bond " + std::to_string(bond));
  page.heading("Ranks over the steps").raw(shared_legend(names)).small_charts(charts);
}

std::string to_html(const ModelReport& report) {
  Page page(report.path);
  page.facts(facts_of(report));
  add_curves_and_ranks(page, report);
  page.heading("Weights").table(layer_table(report));
  return page.text();
}

Table compare_table(const ModelReport& a, const ModelReport& b) {
  Table table;
  table.columns = {{"name", "weight"},
                   {"form_a", "form A"},
                   {"form_b", "form B"},
                   {"ranks_a", "ranks A"},
                   {"ranks_b", "ranks B"},
                   {"parameters_a", "parameters A", Unit::count},
                   {"parameters_b", "parameters B", Unit::count},
                   {"bytes_a", "bytes A", Unit::bytes},
                   {"bytes_b", "bytes B", Unit::bytes},
                   {"ratio", "A / B", Unit::ratio}};
  table.dispensable = {"bytes_a", "bytes_b", "ranks_a", "ranks_b", "form_a", "form_b"};
  const Cell none;
  for (const auto& [x, y] : pairs_of(a, b))
    table.rows.push_back({x ? x->name : y->name, x ? Cell(x->form) : none, y ? Cell(y->form) : none,
                          x ? list_or_nothing(x->layout.ranks) : none, y ? list_or_nothing(y->layout.ranks) : none,
                          x ? Cell(x->parameters) : none, y ? Cell(y->parameters) : none, x ? whole(x->bytes) : none,
                          y ? whole(y->bytes) : none, x && y ? quotient(totals_of({*x}), totals_of({*y})) : none});
  table.totals.push_back({std::string("model"), none, none, none, none, a.totals.parameters, b.totals.parameters,
                          whole(a.totals.bytes), whole(b.totals.bytes), quotient(a.totals, b.totals)});
  return table;
}

Json compare_json(const ModelReport& a, const ModelReport& b) {
  Json json = document("inspect");
  json["paths"] = {a.path, b.path};
  json["totals"] = {totals_json(a.totals), totals_json(b.totals)};
  json["layers"] = Json::array();
  for (const auto& [x, y] : pairs_of(a, b)) {
    Json both;
    both["name"] = x ? x->name : y->name;
    both["a"] = x ? layer_json(*x, a.totals) : Json(nullptr);
    both["b"] = y ? layer_json(*y, b.totals) : Json(nullptr);
    json["layers"].push_back(std::move(both));
  }
  return json;
}

std::string compare_html(const ModelReport& a, const ModelReport& b) {
  Page page(a.path + " and " + b.path);
  const auto number = [](std::int64_t value) { return show(static_cast<double>(value), Unit::count); };
  page.facts({{"parameters of A: " + a.path, number(a.totals.parameters)},
              {"parameters of B: " + b.path, number(b.totals.parameters)},
              {"A / B", show(quotient(a.totals, b.totals), Unit::ratio)}});
  if (a.history && b.history)
    if (const auto curves = compared_curves(*a.history, a.path, *b.history, b.path); !curves.empty())
      page.heading("Training").charts(curves);
  page.heading("Weights").table(compare_table(a, b));
  return page.text();
}

}  // namespace comera::report
