#include "lib/report/weights/tensorize_report.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "lib/report/output/fit.h"
#include "lib/report/output/fold.h"
#include "lib/report/output/html.h"

using namespace comera;
using namespace comera::report;
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;

namespace {

compress::LayerOutcome layer(const std::string& name, const std::string& form, const std::string& reason = "") {
  compress::LayerOutcome outcome;
  outcome.name = name, outcome.form = form, outcome.reason = reason;
  outcome.shape = {1536, 384};
  outcome.bytes_dense = outcome.bytes = 1179648;
  if (form == "dense") return outcome;
  io::ChainSpec chain;
  chain.layout =
      form == "tt" ? tt::tt_layout({32, 48}, {384}, {1, 14, 192, 1}) : tt::tt_layout({1536}, {384}, {1, 192, 1});
  outcome.chain = chain;
  outcome.bytes = 1101004;
  outcome.rel_error = 0.312345, outcome.output_error = 0.123456, outcome.optimum = 0.1,
  outcome.error_of_optimum = 0.112;
  outcome.ms = 11257.32;
  return outcome;
}

compress::Result result_of(std::vector<compress::LayerOutcome> layers) {
  compress::Result result;
  result.output = "small";
  result.layers = std::move(layers);
  result.file_bytes_dense = 45437504, result.file_bytes = 28432588;
  return result;
}

const char* const slower = "above rank 307 it would be slower or larger than dense 1536 x 384";

}  // namespace

TEST_CASE("The reasons for dense layers are listed once, below the table") {
  const LayerLines lines =
      tensorize_layers(result_of({layer("encoder.layer.0.output.dense", "dense", slower),
                                  layer("encoder.layer.1.output.dense", "dense", "--layer asks for it"),
                                  layer("encoder.layer.2.output.dense", "dense", slower)}));
  CHECK(lines.notes == std::vector<std::string>{std::string("(1) ") + slower, "(2) --layer asks for it"});
  const auto form = static_cast<std::size_t>(lines.table.column("form"));
  CHECK(std::get<std::string>(lines.table.rows[0][form]) == "dense (1)");
  CHECK(std::get<std::string>(lines.table.rows[1][form]) == "dense (2)");
  // Columns without measurements and without chains are absent.
  for (const char* empty : {"modes", "ranks", "output_error", "optimum", "ms"}) CHECK(lines.table.column(empty) == -1);
}

TEST_CASE("The line of a layer fits a page of 1,000 pixels, errors included") {
  const LayerLines lines = tensorize_layers(result_of({layer("encoder.layer.10.attention.output.dense", "tt")}));
  const auto modes = static_cast<std::size_t>(lines.table.column("modes"));
  CHECK(show(lines.table.rows[0][modes], Unit::sizes) == "32x48x384");
  std::size_t pixels = 0;
  for (std::size_t c = 0; c < lines.table.columns.size(); ++c) {
    const Column& column = lines.table.columns[c];
    std::size_t characters = c == 0 ? short_name(std::get<std::string>(lines.table.rows[0][0])).size()
                                    : show(lines.table.rows[0][c], column.unit).size();
    for (std::size_t at = 0, end = 0; end != std::string::npos; at = end + 1) {  // titles break between words
      end = column.title.find(' ', at);
      characters = std::max(characters, std::min(end, column.title.size()) - at);
    }
    pixels +=
        characters * 7 + 9;  // a 12 pixel font is about 7 pixels wide per character; 9 is the padding of the style
  }
  CHECK(pixels <= 1000 - 2 * 16);
}

TEST_CASE("Equal rows are folded, and the last lines are the compressed layers and the cost") {
  std::vector<compress::LayerOutcome> layers{layer("encoder.layer.0.attention.self.query", "tt")};
  for (const char* block : {"0", "1", "2"})
    for (const char* part : {"self.key", "self.value", "output.dense"})
      layers.push_back(layer(fmt::format("encoder.layer.{}.attention.{}", block, part), "dense", slower));
  layers.push_back(layer("encoder.layer.2.output.dense", "dense", slower));
  compress::Result result = result_of(layers);
  const Table table = tensorize_layers(result).table;
  REQUIRE(table.rows.size() == 3);
  CHECK(std::get<std::string>(table.rows[1][0]) == "encoder.layer.0-2.attention.output|self.dense|key|value.weight");
  const auto count = static_cast<std::size_t>(table.column("layers"));
  CHECK(std::get<std::int64_t>(table.rows[1][count]) == 9);
  CHECK(std::get<std::int64_t>(table.rows[2][count]) == 1);
  CHECK(table.totals[0].size() == table.columns.size());
  CHECK(to_json(result)["layers"].size() == 11);
  CHECK(to_json(result)["kinds"]["attention layers"] == Json{{"cut", 1}, {"of", 10}});

  compress::Comparison cost;
  cost.text = "the sample", cost.sequences = 3, cost.tokens = 40;
  cost.answers = {37, 0.75, 0.0625, 10.0, 12.5};
  cost.words = true;
  result.cost = cost;
  CHECK_THAT(summary(result), Contains("cut: 1 of 10 attention layers, 0 of 1 feed-forward layers\n"));
  const std::string last =
      "cost: perplexity 10 -> 12.5, KL 0.0625 nats, same answer in 75.0 %; 3 texts, 40 tokens of the "
      "sample";
  CHECK_THAT(summary(result), Contains(last + "; text given with --calibrate keeps more"));
  CHECK_THAT(summary(result, false), EndsWith(last + "\n"));
  result.calibration = compress::MomentsInfo{};
  CHECK_THAT(summary(result), EndsWith(last + "\n"));
  CHECK(to_json(result)["cost"]["perplexity"] == 12.5);
  result.source = "models/dense";
  CHECK_THAT(to_html(result),
             Contains("<b>10</b><span>perplexity before</span>") && Contains("<b>12.5</b><span>perplexity</span>"));
  CHECK_THAT(to_html(result), Contains("Source: models/dense. Written to small.") && Contains("class=\"weights\"") &&
                                  Contains(">bytes kept<"));
  CHECK(to_json(result)["source"] == "models/dense");
  result.cost = compress::Comparison{};
  result.cost->left_out = "no tokenizer";
  CHECK_THAT(summary(result), EndsWith("cost: not measured: no tokenizer\n"));
}

TEST_CASE("Errors of outputs and of weights are told apart") {
  // One layer with the output error .1235, one dense, and a table with the weight error .9 alone.
  compress::LayerOutcome table = layer("embeddings.position_embeddings", "lowrank");
  table.table = true, table.rel_error = 0.9, table.output_error = {};
  compress::Result result =
      result_of({layer("encoder.layer.0.output.dense", "tt"), layer("pooler.dense", "dense"), table});
  result.calibration = compress::MomentsInfo{};
  CHECK_THAT(summary(result),
             Contains("mean output error 0.0617 over 2 layers, 1 of them dense, worst 0.1235") &&
                 Contains("1 weight without an output error: mean weight error 0.9000, worst 0.9000\n"));
  const Json totals = to_json(result)["totals"];
  CHECK(totals["error_of"] == "outputs");
  CHECK(totals["mean_error"].get<double>() == Approx(0.123456 / 2));
  CHECK(totals["worst_error"].get<double>() == Approx(0.123456));
  CHECK(totals["unmeasured"] == Json{{"layers", 1}, {"mean_weight_error", 0.9}, {"worst_weight_error", 0.9}});
  // The bars are output errors on one scale, so the longest is that of the first layer.
  CHECK_THAT(to_html(result), Contains("<i class=\"err\" style=\"width:100.00%\"></i></span><span>0.123</span>") &&
                                  !Contains("<span>0.900</span>"));
  // Without any output error all errors are of weights.
  for (compress::LayerOutcome& one : result.layers) one.output_error = {};
  CHECK_THAT(summary(result), Contains("mean weight error 0.4041 over 3 layers, 1 of them dense, worst 0.9000") &&
                                  !Contains("without an output error"));
  CHECK_FALSE(to_json(result)["totals"].contains("unmeasured"));
}

TEST_CASE("A note explains only columns that the table has") {
  compress::Result result = result_of({layer("encoder.layer.0.output.dense", "tt")});
  result.calibration = compress::MomentsInfo{};
  const std::string wide = render_fitted(tensorize_layers(result).table, 400);
  CHECK_THAT(wide, Contains("output error: on held-out text\noptimum: the least that any matrix"));
  CHECK_THAT(to_html(result), Contains("optimum: the least that"));
  // On a grid there is no optimum.
  result.layers[0].form = "q4_0", result.layers[0].optimum = {}, result.layers[0].error_of_optimum = {};
  CHECK_THAT(render_fitted(tensorize_layers(result).table, 400), Contains("output error: on") && !Contains("optimum"));
  CHECK_THAT(to_html(result), !Contains("optimum"));
}

TEST_CASE("Names in a page are shortened only if they stay different") {
  CHECK_THAT(to_html(result_of({layer("encoder.layer.0.output.dense", "tt")})),
             Contains(">layer.0.output<") && Contains(">12.0 %<"));
  compress::LayerOutcome other = layer("decoder.layer.0.output.dense", "tt");
  other.rel_error = 0.2;
  const std::string both = to_html(result_of({layer("encoder.layer.0.output.dense", "tt"), other}));
  CHECK_THAT(both,
             Contains(">encoder.layer.0.output.dense.weight<") && Contains(">decoder.layer.0.output.dense.weight<"));
}
