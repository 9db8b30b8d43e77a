// The pages of tensorize: sizes, the cost of compression, and pictures of every layer before and after.
#include <fmt/core.h>

#include <algorithm>

#include "lib/core/join.h"
#include "lib/core/units.h"
#include "lib/report/output/fold.h"
#include "lib/report/output/html.h"
#include "lib/report/weights/comparison.h"
#include "lib/report/weights/layer_kinds.h"
#include "lib/report/weights/tensorize_report.h"
#include "lib/report/weights/tensorize_words.h"
#include "lib/report/weights/weight_bars.h"

namespace comera::report {
namespace {

using compress::LayerOutcome;
using compress::Result;

std::string layers_cut(const Result& result) {
  const auto cut = std::count_if(result.layers.begin(), result.layers.end(),
                                 [](const LayerOutcome& layer) { return layer.chain.has_value(); });
  return fmt::format("{} of {}", cut, result.layers.size());
}

Facts facts_of(const Result& result) {
  const compress::LayerErrors errors = result.errors(), unmeasured = result.unmeasured_errors();
  Facts facts = {{result.format.name + " before", format_bytes(result.file_bytes_dense)},
                 {result.format.name + " after", format_bytes(result.file_bytes)},
                 {"ratio, before / after", show(result.ratio(), Unit::ratio)},
                 {"layers cut", layers_cut(result)},
                 {"mean " + error_name(result), fmt::format("{:.4f}", errors.mean)},
                 {"worst " + error_name(result), fmt::format("{:.4f}", errors.worst)}};
  if (unmeasured.layers > 0)
    facts.push_back({"mean and worst weight error of " + unmeasured_name(result),
                     fmt::format("{:.4f}, {:.4f}", unmeasured.mean, unmeasured.worst)});
  facts.push_back({"time", format_seconds(result.seconds)});
  return facts;
}

void add_cost(Page& page, const Result& result) {
  page.heading("What compression cost");
  if (!result.cost || !result.cost->left_out.empty()) {
    page.paragraph(fmt::format("Not measured{}.", result.cost ? ": " + result.cost->left_out : ""));
  } else {
    page.facts(cost_facts(*result.cost));
    page.paragraph(fmt::format("Answers of the compressed model beside those of the source, {} texts, {} tokens of {}.",
                               result.cost->sequences, result.cost->tokens, result.cost->text));
  }
  if (const std::string words = hint(result); !words.empty()) page.paragraph(fmt::format("Hint: {}.", words));
}

void add_source(Page& page, const Result& result) {
  page.paragraph(fmt::format("Source: {}. Written to {}.", result.source, result.output));
  if (const auto& text = result.calibration)
    page.paragraph(fmt::format("Calibrated on {}: {} tokens, {} of them held out.", join(text->files, ", "),
                               text->tokens, text->held_tokens));
}

// Unchanged weights appear only in the table, and so do errors of another kind than the others.
void add_bars(Page& page, const Result& result) {
  const bool outputs = result.measures_outputs();
  std::vector<WeightBar> bars;
  for (const LayerOutcome& layer : result.layers)
    if (layer.chain)
      bars.push_back({short_name(layer.name), layer.bytes_dense, layer.bytes,
                      outputs ? layer.output_error : std::optional(layer.rel_error)});
  page.raw(weight_bars(bars, error_name(result)));
}

void add_layers(Page& page, const Result& result) {
  page.heading("Bytes and error of each layer").paragraph("Cut: " + kinds_cut(result) + ".");
  page.paragraph("Blue: the bytes that are left of those before (grey). Orange: the " + error_name(result) +
                 ", all on one scale.");
  add_bars(page, result);
  LayerLines layers = tensorize_layers(result);
  shorten_names(layers.table);
  page.heading("All layers").table(layers.table);
  for (const Column& column : layers.table.columns)
    if (!column.note.empty()) page.paragraph(column.note);
  for (const std::string& note : layers.notes) page.paragraph(note);
  if (!result.files.left_out.empty())
    page.paragraph(fmt::format("Left out, because they hold the dense weights in another format: {}.",
                               join(result.files.left_out, ", ")));
}

void add_blocks(Page& page, const Result& result) {
  if (result.blocks.empty()) return;
  page.heading("Error of the outputs of blocks");
  page.paragraph(
      "Relative to the dense block's outputs, on held-out text: the text that chooses between the fitted and the "
      "trained "
      "block, and text that takes no part in any choice.");
  page.table(refined_blocks(result));
}

void add_all(Page& page, const Result& result) {
  add_source(page, result);
  page.facts(facts_of(result));
  add_cost(page, result);
  add_blocks(page, result);
  add_layers(page, result);
}

std::optional<double> mean_error_of(const Result& result) { return result.errors().mean; }

// Plots a number of each result over the size of its file.
Chart over_size(std::span<const Result> results, const std::string& title,
                const std::function<std::optional<double>(const Result&)>& value) {
  Chart chart{.title = title, .x_label = "MiB of the weights file", .unit = Unit::plain, .from_zero = false};
  Series series{title, {}, {}, true};
  for (const Result& result : results)
    if (const auto y = value(result)) {
      series.x.push_back(static_cast<double>(result.file_bytes) / 1048576);
      series.y.push_back(*y);
    }
  if (!series.x.empty()) chart.series.push_back(std::move(series));
  return chart;
}

}  // namespace

std::string to_html(const Result& result) {
  Page page("tensorize " + result.output);
  add_all(page, result);
  return page.text();
}

std::string to_html(std::span<const Result> results) {
  Page page("tensorize: bytes against error");
  if (!results.empty())
    page.paragraph(
        fmt::format("Source: {}, {}.", results.front().source, format_bytes(results.front().file_bytes_dense)));
  page.charts({over_size(results, "mean " + (results.empty() ? "error" : error_name(results.front())), mean_error_of),
               over_size(results, "cosine to the source", cosine_of), over_size(results, "perplexity", perplexity_of)});
  page.table(tensorize_sizes(results));
  for (const Result& result : results) {
    page.heading(result.output);
    add_all(page, result);
  }
  return page.text();
}

}  // namespace comera::report
