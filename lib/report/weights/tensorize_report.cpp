#include "lib/report/weights/tensorize_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "lib/core/join.h"
#include "lib/core/units.h"
#include "lib/report/output/fold.h"
#include "lib/report/weights/comparison.h"
#include "lib/report/weights/layer_kinds.h"
#include "lib/report/weights/tensorize_words.h"
#include "lib/report/weights/weight_columns.h"

namespace comera::report {
namespace {

using compress::LayerOutcome;
using compress::Result;

Cell maybe(const std::optional<double>& value) { return value ? Cell(*value) : Cell(); }

// The relative distance of an error from the minimum for its rank: 0.02 is two percent.
std::optional<double> above_optimum(const LayerOutcome& layer) {
  if (!layer.optimum || !layer.error_of_optimum || *layer.optimum <= 0) return std::nullopt;
  return *layer.error_of_optimum / *layer.optimum - 1;
}

Json layer_json(const LayerOutcome& layer, const compress::OutputFormat& format) {
  Json json{{"name", weight_name(layer.name, layer.bare, format)},
            {"kind", layer.table ? "embedding" : "linear"},
            {"shape", layer.shape},
            {"form", layer.form}};
  json["modes"] = layer.chain ? layer.chain->layout.modes : io::FileShape{};
  json["ranks"] = layer.chain ? layer.chain->layout.ranks : io::FileShape{};
  if (layer.chain)
    json["in_count"] = layer.chain->layout.inputs(), json["sorted"] = layer.chain->layout.sorted,
    json["gauge"] = layer.chain->layout.gauge;
  if (layer.chain && layer.chain->layout.exact_rows > 0) json["exact_rows"] = layer.chain->layout.exact_rows;
  json["parameters"] = layer.parameters;
  json["parameters_dense"] = layer.parameters_dense;
  json["bytes"] = layer.bytes;
  json["bytes_dense"] = layer.bytes_dense;
  json["ratio"] = ratio_of(layer);
  json["rel_error"] = layer.rel_error;
  json["output_error"] = to_json(maybe(layer.output_error));
  json["direction_error"] = to_json(maybe(layer.direction_error));
  json["optimum"] = to_json(maybe(layer.optimum));
  json["above_optimum"] = to_json(maybe(above_optimum(layer)));
  json["ms"] = layer.ms;
  if (!layer.reason.empty()) json["reason"] = layer.reason;
  return json;
}

Json totals_json(const Result& result) {
  const compress::LayerErrors errors = result.errors(), unmeasured = result.unmeasured_errors();
  Json json{{"file_bytes", result.file_bytes},
            {"file_bytes_dense", result.file_bytes_dense},
            {"file_ratio", result.ratio()},
            {"parameters", result.parameters},
            {"parameters_dense", result.parameters_dense},
            {"error_of", result.measures_outputs() ? "outputs" : "weights"},
            {"mean_error", errors.mean},
            {"worst_error", errors.worst},
            {"seconds", result.seconds}};
  if (unmeasured.layers > 0)
    json["unmeasured"] = {{"layers", unmeasured.layers},
                          {"mean_weight_error", unmeasured.mean},
                          {"worst_weight_error", unmeasured.worst}};
  if (result.counted_bytes) json["onnx_bytes"] = *result.counted_bytes;
  return json;
}

Json body_json(const Result& result) {
  Json json;
  json["source"] = result.source;
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
  for (const compress::BlockOutcome& block : result.blocks) json["blocks"].push_back(compress::to_json(block));
  json["left_out"] = result.files.left_out;
  json["layers"] = Json::array();
  for (const LayerOutcome& layer : result.layers) json["layers"].push_back(layer_json(layer, result.format));
  return json;
}

// Adds the notes that tell what each kind of error is measured on.
void note_measures(const Result& result, Table& table) {
  const auto note = [&](const char* key) -> std::string& {
    return table.columns[static_cast<std::size_t>(table.column(key))].note;
  };
  if (result.calibration) {
    note("output_error") = "output error: on held-out text";
    note("optimum") = "optimum: the least that any matrix of the rank has on the text it was fitted to";
  }
  const auto is_ttm = [](const LayerOutcome& layer) { return layer.form == "ttm"; };
  if (std::any_of(result.layers.begin(), result.layers.end(), is_ttm))
    note("optimum") += std::string(result.calibration ? "; " : "optimum ") +
                       "of a ttm: a lower bound of the error of every ttm with its ranks";
}

}  // namespace

Table refined_blocks(const Result& result) {
  Table table;
  table.columns = {{"block", "block"},
                   {"error_before", "as fitted", Unit::error},
                   {"error_after", "trained", Unit::error},
                   {"kept", "stored"},
                   {"judged_error_before", "other text, as fitted", Unit::error},
                   {"judged_error_after", "other text, as stored", Unit::error}};
  for (const compress::BlockOutcome& block : result.blocks)
    table.rows.push_back({static_cast<std::int64_t>(block.block + 1), block.before, block.after,
                          block.kept ? "trained" : "as fitted", block.judged_before, block.judged_after});
  return table;
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
                   {"rel_error", "weight error", Unit::error},
                   {"output_error", "output error", Unit::error},
                   {"optimum", "optimum", Unit::error},
                   {"above_optimum", "above optimum", Unit::share},
                   {"ms", "ms", Unit::ms}};
  table.dispensable = {"ms", "above_optimum", "modes", "shape", "optimum", "ratio", "bytes_dense"};
  Reasons reasons;
  for (const LayerOutcome& layer : result.layers) {
    const bool pair = !layer.chain || layer.chain->layout.ranks.size() <= 3;  // the modes of a pair are its shape
    const io::FileShape none;
    table.rows.push_back(
        {weight_name(layer.name, layer.bare, result.format), layer.shape,
         reasons.marked(form_words(layer.form, layer.chain ? layer.chain->layout.exact_rows : 0), layer.reason),
         list_or_nothing(pair ? none : layer.chain->layout.modes),
         list_or_nothing(layer.chain && !layer.chain->layout.empty() ? layer.chain->layout.ranks : none),
         whole(layer.bytes_dense), whole(layer.bytes), ratio_of(layer), rounded(layer.rel_error),
         rounded(layer.output_error), rounded(layer.optimum), maybe(above_optimum(layer)),
         layer.chain ? Cell(layer.ms) : Cell()});
  }
  std::vector<Cell> total(table.columns.size());
  total[0] = result.format.name;
  total[5] = whole(result.file_bytes_dense);
  total[6] = whole(result.file_bytes);
  total[7] = result.ratio();
  table.totals.push_back(std::move(total));
  note_measures(result, table);
  return {fold_equal_rows(without_empty_columns(table)), reasons.lines()};
}

Json to_json(const Result& result) {
  Json json = document("tensorize");
  json.update(body_json(result));
  return json;
}

std::string summary(const Result& result, bool last) {
  const compress::LayerErrors errors = result.errors(), unmeasured = result.unmeasured_errors();
  const auto dense = std::ranges::count_if(result.layers, [](const LayerOutcome& layer) { return !layer.chain; });
  // Many dense layers make the mean small, whatever the others lose.
  const std::string over = dense > 0 ? fmt::format(" over {} layers, {} of them dense", errors.layers, dense) : "";
  std::string out = fmt::format("{}: {} -> {} ({}), mean {} {:.4f}{}, worst {:.4f}, {}\n", result.output,
                                format_bytes(result.file_bytes_dense), format_bytes(result.file_bytes),
                                show(result.ratio(), Unit::ratio), error_name(result), errors.mean, over, errors.worst,
                                format_seconds(result.seconds));
  if (unmeasured.layers > 0)
    out += fmt::format("{}: mean weight error {:.4f}, worst {:.4f}\n", unmeasured_name(result), unmeasured.mean,
                       unmeasured.worst);
  if (result.counted_bytes)
    out += fmt::format("as the ONNX graph that `comera export` writes: {} bytes\n", *result.counted_bytes);
  if (!result.files.left_out.empty())
    out += fmt::format("left out, because they hold the dense weights in another format: {}\n",
                       join(result.files.left_out, ", "));
  out += fmt::format("cut: {}\n", kinds_cut(result));
  const std::string words = last ? hint(result) : "";
  out += fmt::format("cost: {}{}{}\n", result.cost ? cost_words(*result.cost) : "not measured",
                     words.empty() ? "" : "; ", words);
  return out;
}

Table tensorize_sizes(std::span<const Result> results) {
  Table table;
  table.columns = {{"output", "folder"},
                   {"asked_ratio", "asked", Unit::ratio},
                   {"file_bytes", "bytes", Unit::bytes},
                   {"ratio", "ratio", Unit::ratio},
                   {"mean_error", "mean error", Unit::error},
                   {"worst_error", "worst error", Unit::error},
                   {"dense_layers", "layers dense", Unit::count},
                   {"cosine", "cosine", Unit::error},
                   {"perplexity", "perplexity"}};
  for (const Result& result : results) {
    std::int64_t dense = 0;
    for (const LayerOutcome& layer : result.layers) dense += !layer.chain;
    const Cell asked = result.asked_ratio > 0 ? Cell(result.asked_ratio) : Cell();
    const compress::LayerErrors errors = result.errors();
    table.rows.push_back({result.output, asked, whole(result.file_bytes), result.ratio(), errors.mean, errors.worst,
                          dense, rounded(cosine_of(result)), rounded(perplexity_of(result))});
  }
  return without_empty_columns(table);
}

Json to_json(std::span<const Result> results) {
  Json json = document("tensorize");
  json["runs"] = Json::array();
  for (const Result& result : results) json["runs"].push_back(body_json(result));
  return json;
}

}  // namespace comera::report
