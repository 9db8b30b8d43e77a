#include "lib/report/run/run_report.h"

#include <fmt/core.h>

#include <algorithm>

#include "lib/core/files/file.h"
#include "lib/core/memory.h"
#include "lib/core/units.h"
#include "lib/report/output/html.h"
#include "lib/report/run/evaluation.h"
#include "lib/report/run/plan_report.h"
#include "lib/report/weights/weight_bars.h"

namespace comera::report {
namespace {

const char* name_of(train::RunEnd end) {
  switch (end) {
    case train::RunEnd::steps: return "steps";
    case train::RunEnd::time: return "time";
    case train::RunEnd::early: return "early";
    case train::RunEnd::signal: break;
  }
  return "signal";
}

double closing(const ModelReport& model, const char* key) { return model.history ? model.history->closing(key) : NAN; }

// The stored model is the best one if one was chosen, else the last.
struct Stored {
  bool known = false, has_accuracy = true;  // embeddings have only a loss
  double accuracy = 0, loss = 0;
  engine::ScoreMetrics scores;
  engine::ClickMetrics clicks;
};
Stored stored_of(const RunReport& report) {
  const train::RunResult& result = report.result;
  const bool has_accuracy = engine::has_accuracy(report.task, result.last.labelled);
  if (result.best_step >= 0)
    return {true, has_accuracy, result.best_accuracy, result.best_loss, result.best_scores, result.best_clicks};
  const engine::Evaluation& last = result.last;
  return {last.counted > 0, has_accuracy, last.accuracy, last.loss, last.scores, last.clicks};
}

void add_scores(Json& json, const engine::ScoreMetrics& scores) {
  if (scores.count == 0) return;
  json["rmse"] = to_json(Cell(scores.rmse()));
  json["pearson"] = to_json(Cell(scores.pearson));
  json["spearman"] = to_json(Cell(scores.spearman));
}

void add_clicks(Json& json, const engine::ClickMetrics& clicks) {
  if (clicks.count == 0) return;
  json["auc"] = to_json(Cell(clicks.auc));
  json["nce"] = to_json(Cell(clicks.nce));
  json["calibration"] = to_json(Cell(clicks.calibration));
}

Json measures_json(bool has_accuracy, double loss, double accuracy, const engine::ScoreMetrics& scores) {
  Json json{{"loss", to_json(Cell(loss))}};
  if (has_accuracy) json["accuracy"] = accuracy;
  add_scores(json, scores);
  return json;
}

Json evaluation_json(bool has_accuracy, const engine::Evaluation& evaluation) {
  if (evaluation.counted == 0) return nullptr;
  Json json = measures_json(has_accuracy, evaluation.loss, evaluation.accuracy, evaluation.scores);
  add_clicks(json, evaluation.clicks);
  json["counted"] = evaluation.counted;
  return json;
}

Json result_json(const RunReport& report) {
  const train::RunResult& result = report.result;
  Json json;
  json["output"] = report.folder;
  json["end"] = name_of(result.end);
  json["step"] = result.step;
  json["steps"] = result.steps;
  json["seconds"] = result.seconds;
  json["loss"] = to_json(Cell(result.loss));
  const Stored stored = stored_of(report);
  json["accuracy"] = stored.known && stored.has_accuracy ? Json(stored.accuracy) : Json(nullptr);
  if (stored.known) add_scores(json, stored.scores), add_clicks(json, stored.clicks);
  json["dev"]["last"] = evaluation_json(stored.has_accuracy, result.last);
  if (result.best_step >= 0) {
    json["dev"]["best"] = {{"step", result.best_step}};
    json["dev"]["best"].update(
        measures_json(stored.has_accuracy, result.best_loss, result.best_accuracy, result.best_scores));
    add_clicks(json["dev"]["best"], result.best_clicks);
  }
  json["step_ms"] = to_json(Cell(closing(report.model, "step_ms")));
  json["tokens_per_second"] = to_json(Cell(closing(report.model, "tokens_per_second")));
  json["memory"] = memory_json(result.memory);
  json["memory"]["planned_peak"] = result.planned_peak;
  json["memory"]["measured_peak"] = result.measured_peak;
  json["memory"]["process_peak"] = report.process_peak;
  json["waited_ms"] = result.waited_ms;
  return json;
}

Table settings_table(const Facts& settings) {
  Table table;
  table.columns = {{"option", "option"}, {"value", "value"}};
  for (const auto& [name, value] : settings) table.rows.push_back({name, value});
  return table;
}

Facts facts_of(const RunReport& report) {
  const Totals& totals = report.model.totals;
  const Stored stored = stored_of(report);
  Facts facts;
  if (stored.known && stored.has_accuracy) facts.emplace_back("dev accuracy", show(stored.accuracy, Unit::share));
  if (stored.scores.count > 0) {
    facts.emplace_back("dev Spearman", show(stored.scores.spearman, Unit::plain));
    facts.emplace_back("dev Pearson", show(stored.scores.pearson, Unit::plain));
    facts.emplace_back("dev RMSE", show(stored.scores.rmse(), Unit::plain));
  }
  if (stored.clicks.count > 0) {
    facts.emplace_back("dev AUC", show(stored.clicks.auc, Unit::plain));
    facts.emplace_back("dev NCE", show(stored.clicks.nce, Unit::plain));
  }
  if (stored.known) facts.emplace_back("dev loss", show(stored.loss, Unit::plain));
  const Facts rest = {{"parameters", show(static_cast<double>(totals.parameters), Unit::count)},
                      {"ratio, dense / this", show(totals.ratio(), Unit::ratio)},
                      {"weight files", format_bytes(report.model.file_bytes)},
                      {"ms per step", show(closing(report.model, "step_ms"), Unit::ms)},
                      {"most memory planned", format_bytes(report.result.planned_peak)},
                      {"most memory measured", format_bytes(report.result.measured_peak)},
                      {"time", format_seconds(report.result.seconds)},
                      {"steps", std::to_string(report.result.step)}};
  facts.insert(facts.end(), rest.begin(), rest.end());
  return facts;
}

// Adds the confusion of the last dev evaluation for tasks with labels.
void add_confusion(Page& page, const RunReport& report) {
  const EvaluationReport last{report.task, report.labels, report.result.last};
  if (last.result.confusion.empty() || last.result.confusion.size() != report.labels.size()) return;
  page.heading("Labels").paragraph("The last evaluation on dev: what each label was taken for.");
  page.table(label_table(last)).folded("confusion of every pair", render(confusion_table(last), Format::html));
}

// Adds the calibration of the last dev evaluation of a model of clicks.
void add_calibration(Page& page, const RunReport& report) {
  const EvaluationReport last{report.task, report.labels, report.result.last};
  if (last.result.clicks.bins.empty()) return;
  Chart chart{.title = "share of clicks", .x_label = "mean probability", .unit = Unit::plain, .from_zero = true};
  Series observed{.name = "observed", .x = {}, .y = {}, .points = true}, perfect{.name = "perfect", .x = {}, .y = {}};
  for (const engine::CalibrationBin& bin : last.result.clicks.bins) {
    observed.x.push_back(bin.predicted), observed.y.push_back(bin.observed);
    perfect.x.push_back(bin.predicted), perfect.y.push_back(bin.predicted);
  }
  chart.series = {observed, perfect};
  page.heading("Calibration").paragraph("The last evaluation on dev, in parts with equally many examples.");
  page.charts({chart}).folded("the parts", render(calibration_table(last), Format::html));
}

// The kinds are those of the last step. Steps become smaller when ranks are removed.
void add_memory(Page& page, const train::RunResult& result) {
  std::string words = "The planned memory of the last training step by kind, at the moment when their sum is largest.";
  if (result.planned_peak > result.memory.peak)
    words += fmt::format(" The step that took most took {}.", format_bytes(result.planned_peak));
  std::vector<ShareBar> bars;
  for (int category = 0; category < plan::categories; ++category)
    bars.push_back({plan::name_of(static_cast<plan::Category>(category)),
                    result.memory.of(static_cast<plan::Category>(category))});
  page.heading("Memory").paragraph(words).raw(share_bars(bars, "together"));
}

}  // namespace

RunReport make_run_report(std::string verb, std::string folder, Facts settings, data::Task task,
                          std::vector<std::string> labels, const train::RunResult& result) {
  ModelReport model = read_model_report(folder);
  return {.verb = std::move(verb),
          .folder = std::move(folder),
          .settings = std::move(settings),
          .task = task,
          .labels = std::move(labels),
          .result = result,
          .process_peak = peak_memory(),
          .model = std::move(model)};
}

Json to_json(const RunReport& report) {
  Json json = document(report.verb);
  json.update(result_json(report));
  for (const auto& [name, value] : report.settings) json["settings"][name] = value;
  const Json model = to_json(report.model);
  for (const char* key : {"file_bytes", "totals", "layers", "history"})
    if (model.contains(key)) json[key] = model[key];
  return json;
}

std::string to_html(const RunReport& report) {
  Page page(report.verb + " " + base_name(report.folder));
  page.facts(facts_of(report));
  add_curves_and_ranks(page, report.model);
  add_confusion(page, report);
  add_calibration(page, report);
  add_memory(page, report.result);
  page.folded("by place in the model", render(memory_by_place(report.result.memory), Format::html));
  page.heading("Settings").table(settings_table(report.settings));
  page.heading("Weights").folded("every weight: shape, modes, ranks, sizes",
                                 render(layer_table(report.model), Format::html));
  return page.text();
}

void write_run_report(const RunReport& report, const Folder& folder) {
  write_file_atomic(folder, "report.html", to_html(report));
  // Written last: a resume of a finished run writes both files again if this one is missing.
  write_file_atomic(folder, "report.json", dump(to_json(report)) + "\n");
}

std::string memory_line(const Json& report) {
  const Json& memory = report.at("memory");
  const auto bytes = [&](const char* key) { return format_bytes(memory.at(key).get<std::uint64_t>()); };
  return fmt::format("memory: {} planned, {} measured, {} of the whole process", bytes("planned_peak"),
                     bytes("measured_peak"), bytes("process_peak"));
}

}  // namespace comera::report
