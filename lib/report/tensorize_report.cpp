#include "lib/report/tensorize_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "lib/core/units.h"
#include "lib/report/comparison.h"
#include "lib/report/fold.h"
#include "lib/report/html.h"
#include "lib/report/layer_kinds.h"
#include "lib/report/weight_bars.h"
#include "lib/report/weight_columns.h"

namespace comera::report {
namespace {

using compress::LayerOutcome;
using compress::Result;

Cell maybe(const std::optional<double>& value) { return value ? Cell(*value) : Cell(); }
// Errors are known to a few digits; 7.8e-16 for what stays as it is helps nobody.
Cell rounded(const std::optional<double>& value) { return value ? Cell(std::round(1e4 * *value) / 1e4) : Cell(); }
Cell text(const std::string& value) { return value.empty() ? Cell() : Cell(value); }

double ratio_of(const LayerOutcome& layer) {
  return static_cast<double>(layer.bytes_dense) / static_cast<double>(std::max<std::uint64_t>(1, layer.bytes));
}

// How far above the best that its rank allows: 0.02 is two percent.
std::optional<double> above_optimum(const LayerOutcome& layer) {
  if (!layer.optimum || !layer.error_of_optimum || *layer.optimum <= 0) return std::nullopt;
  return *layer.error_of_optimum / *layer.optimum - 1;
}

Table layer_columns() {
  Table table{weight_columns(), {}, {}};
  append(table.columns, {{"bytes_dense", "before", Unit::bytes}, {"bytes", "after", Unit::bytes}, {"ratio", "ratio", Unit::ratio}});
  return table;
}

// Why layers stay dense: a few sentences that many layers share, so a layer's line has their number alone.
struct Reasons {
  std::vector<std::string> texts;

  std::string marked(const std::string& form, const std::string& reason) {
    if (reason.empty()) return form;
    const auto found = std::find(texts.begin(), texts.end(), reason);
    const auto at = found - texts.begin();
    if (found == texts.end()) texts.push_back(reason);
    return fmt::format("{} ({})", form, at + 1);
  }
  std::vector<std::string> lines() const {
    std::vector<std::string> lines;
    for (std::size_t i = 0; i < texts.size(); ++i) lines.push_back(fmt::format("({}) {}", i + 1, texts[i]));
    return lines;
  }
};

// Columns that no row has anything in say nothing: output errors without text, milliseconds of a plan.
Table without_empty(const Table& table) {
  const auto empty = [&](std::size_t c) {
    return std::all_of(table.rows.begin(), table.rows.end(), [&](const auto& row) { return std::holds_alternative<std::monostate>(row[c]); });
  };
  Table kept;
  kept.dispensable = table.dispensable;
  kept.rows.resize(table.rows.size());
  kept.totals.resize(table.totals.size());
  for (std::size_t c = 0; c < table.columns.size(); ++c) {
    if (!table.rows.empty() && empty(c)) continue;
    kept.columns.push_back(table.columns[c]);
    for (std::size_t i = 0; i < table.rows.size(); ++i) kept.rows[i].push_back(table.rows[i][c]);
    for (std::size_t i = 0; i < table.totals.size(); ++i) kept.totals[i].push_back(table.totals[i][c]);
  }
  return kept;
}

// In a page the names are as short as they can be and still differ.
Table with_short_names(Table table) {
  std::set<std::string> names;
  for (const auto& row : table.rows) names.insert(short_name(std::get<std::string>(row[0])));
  if (names.size() < table.rows.size()) return table;
  for (auto& row : table.rows) row[0] = short_name(std::get<std::string>(row[0]));
  return table;
}

std::vector<Cell> first_cells(const std::string& name, bool is_table, const io::FileShape& shape, const std::string& form, const io::ChainSpec* chain,
                              std::uint64_t dense, std::uint64_t bytes) {
  std::vector<Cell> cells = weight_cells(name, is_table ? "embedding" : "linear", shape, form, chain ? chain->modes : io::FileShape{},
                                         chain ? chain->ranks : io::FileShape{}, chain ? chain->exact : 0);
  append(cells, {whole(dense), whole(bytes), static_cast<double>(dense) / static_cast<double>(std::max<std::uint64_t>(1, bytes))});
  return cells;
}

// Weights of a graph are called as their initialisers are.
std::string weight_name(const std::string& layer, bool bare, bool graph) { return bare || graph ? layer : layer + ".weight"; }

std::string file_name(bool graph) { return graph ? "ONNX file" : "weights file"; }

Json layer_json(const LayerOutcome& layer, bool graph) {
  Json json{{"name", weight_name(layer.name, layer.bare, graph)},
            {"kind", layer.table ? "embedding" : "linear"},
            {"shape", layer.shape},
            {"form", layer.form}};
  json["modes"] = layer.chain ? layer.chain->modes : io::FileShape{};
  json["ranks"] = layer.chain ? layer.chain->ranks : io::FileShape{};
  if (layer.chain) json["in_count"] = layer.chain->middle(), json["sorted"] = layer.chain->sorted, json["gauge"] = layer.chain->gauge;
  if (layer.chain && layer.chain->exact > 0) json["exact_rows"] = layer.chain->exact;
  json["parameters"] = layer.parameters;
  json["parameters_dense"] = layer.parameters_dense;
  json["bytes"] = layer.bytes;
  json["bytes_dense"] = layer.bytes_dense;
  json["ratio"] = ratio_of(layer);
  json["rel_error"] = layer.rel_error;
  json["output_error"] = to_json(maybe(layer.output_error));
  json["optimum"] = to_json(maybe(layer.optimum));
  json["above_optimum"] = to_json(maybe(above_optimum(layer)));
  json["ms"] = layer.ms;
  if (!layer.reason.empty()) json["reason"] = layer.reason;
  return json;
}

Json totals_json(const Result& result) {
  std::int64_t parameters = 0, parameters_dense = 0;
  for (const LayerOutcome& layer : result.layers) parameters += layer.parameters, parameters_dense += layer.parameters_dense;
  Json json{{"file_bytes", result.file_bytes},
            {"file_bytes_dense", result.file_bytes_dense},
            {"ratio", result.ratio()},
            {"parameters", parameters},
            {"parameters_dense", parameters_dense},
            {"mean_error", mean_error(result)},
            {"worst_error", result.worst_error()},
            {"seconds", result.seconds}};
  if (result.counted_bytes) json["onnx_bytes"] = *result.counted_bytes;
  return json;
}

Json body_json(const Result& result) {
  Json json;
  json["output"] = result.output;
  if (result.asked_ratio > 0) json["asked_ratio"] = result.asked_ratio;
  json["totals"] = totals_json(result);
  json["kinds"] = kinds_json(result);
  if (result.cost) json["cost"] = comparison_json(*result.cost);
  if (result.calibration)
    json["calibration"] = {{"files", result.calibration->files},
                           {"hash", result.calibration->hash},
                           {"tokens", result.calibration->tokens},
                           {"held_tokens", result.calibration->held_tokens},
                           {"judged_tokens", result.calibration->judged_tokens}};
  json["left_out"] = result.files.left_out;
  json["layers"] = Json::array();
  for (const LayerOutcome& layer : result.layers) json["layers"].push_back(layer_json(layer, result.graph));
  return json;
}

std::vector<std::pair<std::string, std::string>> facts_of(const Result& result) {
  return {{file_name(result.graph) + " before", format_bytes(result.file_bytes_dense)},
          {"after", format_bytes(result.file_bytes)},
          {"ratio", show(result.ratio(), Unit::ratio)},
          {result.calibration ? "mean output error" : "mean weight error", fmt::format("{:.4f}", mean_error(result))},
          {"seconds", fmt::format("{:.1f}", result.seconds)}};
}

constexpr const char* hint = "text given with --calibrate keeps more of the model at this size";

bool may_calibrate(const Result& result) { return !result.graph && !result.calibration; }

void add_cost(Page& page, const Result& result) {
  page.paragraph("Cut: " + kinds_cut(result) + ".");
  if (result.cost) page.paragraph(fmt::format("Cost: {}.", cost_words(*result.cost)));
}

// Weights that stayed as they were are in the table alone.
void add_bars(Page& page, const Result& result) {
  std::vector<WeightBar> bars;
  for (const LayerOutcome& layer : result.layers)
    if (layer.chain) bars.push_back({short_name(layer.name), layer.bytes_dense, layer.bytes, layer.output_error.value_or(layer.rel_error)});
  page.raw(weight_bars(bars, result.calibration ? "output error" : "weight error"));
}

void add_layers(Page& page, const Result& result) {
  add_bars(page, result);
  const LayerLines layers = tensorize_layers(result);
  page.table(with_short_names(layers.table));
  for (const std::string& note : layers.notes) page.paragraph(note);
}

}  // namespace

double mean_error(const Result& result) {
  double sum = 0;
  std::int64_t count = 0;
  for (const LayerOutcome& layer : result.layers) {
    sum += layer.output_error.value_or(layer.rel_error);
    ++count;
  }
  return count ? sum / static_cast<double>(count) : 0;
}

LayerLines tensorize_layers(const Result& result) {
  Table table;
  table.columns = {{"name", "weight"},
                   {"shape", "shape", Unit::sizes},
                   {"form", "form"},
                   {"modes", "modes", Unit::sizes},
                   {"ranks", "ranks"},
                   {"bytes_dense", "before", Unit::bytes},
                   {"bytes", "after", Unit::bytes},
                   {"ratio", "ratio", Unit::ratio},
                   {"rel_error", "weight error"},
                   {"output_error", "output error"},
                   {"optimum", "optimum"},
                   {"above_optimum", "above it", Unit::share},
                   {"ms", "ms", Unit::ms}};
  table.dispensable = {"ms", "above_optimum", "modes", "shape", "optimum", "ratio", "bytes_dense"};
  Reasons reasons;
  for (const LayerOutcome& layer : result.layers) {
    const bool pair = !layer.chain || layer.chain->ranks.size() <= 3;  // whose modes are its shape
    const io::FileShape none;
    table.rows.push_back({weight_name(layer.name, layer.bare, result.graph), layer.shape,
                          reasons.marked(form_words(layer.form, layer.chain ? layer.chain->exact : 0), layer.reason),
                          list_or_nothing(pair ? none : layer.chain->modes), list_or_nothing(layer.chain ? layer.chain->ranks : none),
                          whole(layer.bytes_dense), whole(layer.bytes), ratio_of(layer), rounded(layer.rel_error), rounded(layer.output_error),
                          rounded(layer.optimum), maybe(above_optimum(layer)), layer.chain ? Cell(layer.ms) : Cell()});
  }
  std::vector<Cell> total(table.columns.size());
  total[0] = file_name(result.graph);
  total[5] = whole(result.file_bytes_dense);
  total[6] = whole(result.file_bytes);
  total[7] = result.ratio();
  table.totals.push_back(std::move(total));
  LayerLines lines{fold_equal_rows(without_empty(table)), reasons.lines()};
  const auto is_ttm = [](const LayerOutcome& layer) { return layer.form == "ttm"; };
  if (std::any_of(result.layers.begin(), result.layers.end(), is_ttm))
    lines.notes.emplace_back("optimum of a ttm: a bound, what every ttm of its ranks loses at least");
  if (result.calibration)
    lines.notes.emplace_back("output error: on held-out text; optimum: the least that any matrix of the rank has on the text it was fitted to");
  return lines;
}

Json to_json(const Result& result) {
  Json json = document("tensorize");
  json.update(body_json(result));
  return json;
}

std::string summary(const Result& result, bool last) {
  std::string out = fmt::format("{}: {} -> {} ({}), mean {} error {:.4f}, worst {:.4f}, {}\n", result.output, format_bytes(result.file_bytes_dense),
                                format_bytes(result.file_bytes), show(result.ratio(), Unit::ratio), result.calibration ? "output" : "weight",
                                mean_error(result), result.worst_error(), format_seconds(result.seconds));
  if (result.counted_bytes) out += fmt::format("as the ONNX graph that `comera export` writes: {} bytes\n", *result.counted_bytes);
  if (!result.files.left_out.empty())
    out += fmt::format("left out, because they hold the dense weights in another format: {}\n", fmt::join(result.files.left_out, ", "));
  out += fmt::format("cut: {}\n", kinds_cut(result));
  out += fmt::format("cost: {}{}\n", result.cost ? cost_words(*result.cost) : "not measured",
                     last && may_calibrate(result) ? fmt::format("; {}", hint) : "");
  return out;
}

std::string to_html(const Result& result) {
  Page page("tensorize: " + result.output);
  page.facts(facts_of(result));
  add_cost(page, result);
  add_layers(page.heading("Layers"), result);
  if (!result.files.left_out.empty())
    page.paragraph(fmt::format("Left out, because they hold the dense weights in another format: {}.", fmt::join(result.files.left_out, ", ")));
  return page.text();
}

namespace {

// The cosine of embeddings, or of hidden states where there are no embeddings.
std::optional<double> cosine_of(const Result& result) {
  if (!result.cost) return std::nullopt;
  const auto& cosine = result.cost->embedding ? result.cost->embedding : result.cost->hidden;
  return cosine ? std::optional(cosine->mean) : std::nullopt;
}

std::optional<double> perplexity_of(const Result& result) {
  return result.cost && result.cost->answers ? result.cost->answers->perplexity : std::nullopt;
}

}  // namespace

Table tensorize_ratios(std::span<const Result> results) {
  Table table;
  table.columns = {{"output", "folder"},
                   {"asked_ratio", "asked", Unit::ratio},
                   {"file_bytes", "bytes", Unit::bytes},
                   {"ratio", "ratio", Unit::ratio},
                   {"mean_error", "mean error"},
                   {"worst_error", "worst error"},
                   {"dense_layers", "layers left dense", Unit::count},
                   {"cosine", "cosine"},
                   {"perplexity", "perplexity"}};
  for (const Result& result : results) {
    std::int64_t dense = 0;
    for (const LayerOutcome& layer : result.layers) dense += !layer.chain;
    table.rows.push_back({result.output, result.asked_ratio, whole(result.file_bytes), result.ratio(), mean_error(result), result.worst_error(),
                          dense, rounded(cosine_of(result)), rounded(perplexity_of(result))});
  }
  return without_empty(table);
}

Json to_json(std::span<const Result> results) {
  Json json = document("tensorize");
  json["runs"] = Json::array();
  for (const Result& result : results) json["runs"].push_back(body_json(result));
  return json;
}

std::string to_html(std::span<const Result> results) {
  Page page("tensorize: bytes against error");
  Chart chart{.title = "mean error over MiB of the weights file", .x_label = "MiB", .unit = Unit::plain};
  Series series{"error", {}, {}, true};
  for (const Result& result : results) {
    series.x.push_back(static_cast<double>(result.file_bytes) / 1048576);
    series.y.push_back(mean_error(result));
  }
  chart.series.push_back(std::move(series));
  page.charts({chart}).table(tensorize_ratios(results));
  for (const Result& result : results) {
    page.heading(result.output);
    add_cost(page, result);
    add_layers(page, result);
  }
  return page.text();
}

Table tensorize_plan(const compress::Tensorizer& tensorizer, const compress::Planned& planned) {
  Table table = layer_columns();
  table.columns.push_back({"reason", "why dense"});
  const auto& candidates = tensorizer.candidates();
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const compress::LayerPlan& plan = planned.plan.layers[i];
    const bool dense = plan.form == compress::PlannedForm::keep_dense;
    const io::ChainSpec chain = dense ? io::ChainSpec{} : compress::chain_of(plan, candidates[i]);
    std::vector<Cell> row =
        first_cells(weight_name(candidates[i].name, candidates[i].bare(), tensorizer.graph()), candidates[i].table, candidates[i].shape,
                    compress::name_of(plan.form), dense ? nullptr : &chain, candidates[i].bytes(), compress::planned_bytes(plan, candidates[i]));
    row.push_back(text(plan.reason));
    table.rows.push_back(std::move(row));
  }
  const std::uint64_t dense = tensorizer.file_bytes_dense();
  std::vector<Cell> total(table.columns.size());
  total[0] = file_name(tensorizer.graph());
  total[6] = whole(dense);
  total[7] = whole(planned.file_bytes);
  total[8] = static_cast<double>(dense) / static_cast<double>(planned.file_bytes);
  table.totals.push_back(std::move(total));
  if (!planned.counted_bytes) return table;
  std::vector<Cell> counted(table.columns.size());
  counted[0] = std::string("exported ONNX");
  counted[7] = whole(*planned.counted_bytes);
  table.totals.push_back(std::move(counted));
  return table;
}

Json plan_json(const compress::Tensorizer& tensorizer, const compress::Planned& planned) {
  Json json{{"output", planned.output}, {"file_bytes", planned.file_bytes}, {"file_bytes_dense", tensorizer.file_bytes_dense()}};
  if (planned.counted_bytes) json["onnx_bytes"] = *planned.counted_bytes;
  const compress::CalibrationNeeds needs = tensorizer.calibration_needs();
  json["calibration_bytes"] = needs.memory;
  json["calibration_scratch_bytes"] = needs.scratch;
  json["layers"] = to_json(tensorize_plan(tensorizer, planned));
  return json;
}

Table verification_table(const compress::Verification& verification) {
  Table table;
  table.columns = {{"name", "weight"},
                   {"rel_error", "weight error"},
                   {"stored_rel_error", "certified"},
                   {"output_error", "output error"},
                   {"stored_output_error", "certified"},
                   {"fault", "fault"}};
  for (const compress::LayerCheck& layer : verification.layers)
    table.rows.push_back(
        {layer.name, layer.rel_error, layer.stored_rel_error, maybe(layer.output_error), maybe(layer.stored_output_error), text(layer.fault)});
  for (const compress::OtherFault& other : verification.other_faults) table.rows.push_back({other.name, Cell(), Cell(), Cell(), Cell(), other.fault});
  return table;
}

Json to_json(const compress::Verification& verification) {
  Json json = document("verify");
  json["holds"] = verification.holds();
  json["layers"] = to_json(verification_table(verification));
  json["other_tensors"] = verification.others;
  return json;
}

}  // namespace comera::report
