#include "tools/training.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "lib/core/files/file.h"
#include "lib/core/memory.h"
#include "lib/core/terminal/log.h"
#include "lib/core/terminal/stop.h"
#include "lib/io/json_file.h"
#include "lib/io/side_files.h"
#include "lib/report/output/fit.h"
#include "lib/report/run/explanation.h"
#include "lib/report/run/plan_report.h"
#include "lib/report/run/progress.h"
#include "lib/report/run/runs_table.h"
#include "tools/fitting.h"
#include "tools/program.h"
#include "tools/step_times.h"

namespace comera::tools {
namespace {

void log_lines(const std::string& text) {
  for (std::size_t start = 0, end; (end = text.find('\n', start)) != std::string::npos; start = end + 1)
    log_info("{}", text.substr(start, end - start));
}

report::StepLine line_of(const train::StepReport& step, double max_seconds) {
  report::StepLine line{.step = step.step,
                        .steps = step.steps,
                        .loss = step.loss,
                        .learning_rate = step.learning_rate,
                        .gradient_norm = step.gradient_norm,
                        .rank = {},
                        .ratio = {},
                        .step_ms = step.step_ms,
                        .tokens_per_second = step.tokens_per_second,
                        .peak_bytes = step.peak_bytes,
                        .eta_seconds = {}};
  if (max_seconds > 0) line.seconds_left = std::max(0.0, max_seconds - step.seconds);
  if (step.has_ranks) line.rank = step.mean_rank, line.ratio = step.ratio;
  return line;
}

std::string evaluation_line(data::Task task, std::int64_t step, const engine::Evaluation& evaluation, bool best) {
  const std::string perplexity =
      predicts_words(task) ? fmt::format("  dev perplexity {:.4g}", std::exp(evaluation.loss)) : "";
  const std::string accuracy =
      engine::has_accuracy(evaluation) ? fmt::format("  dev accuracy {:.2f} %", 100 * evaluation.accuracy) : "";
  const std::string clicks = evaluation.clicks.count > 0 ? fmt::format("  dev AUC {:.4f}  NCE {:.4f}",
                                                                       evaluation.clicks.auc, evaluation.clicks.nce)
                                                         : "";
  const engine::ScoreMetrics& scores = evaluation.scores;
  const std::string near = scores.count > 0 ? fmt::format("  dev Pearson {:.4f}  Spearman {:.4f}  RMSE {:.4g}",
                                                          scores.pearson, scores.spearman, scores.rmse())
                                            : "";
  return fmt::format("step {}  dev loss {:.4g}{}{}{}{}{}", step, evaluation.loss, perplexity, accuracy, near, clicks,
                     best ? "  best so far" : "");
}

void print_head(const OptionValues& values, const RunSetup& setup, train::Trainer& trainer,
                const engine::MemoryTable& memory) {
  for (const auto& [name, value] : settings_of(values)) log_info("{:<12} {}", name, value);
  if (!setup.data->labels().empty()) log_info("{:<12} {}", "labels", setup.data->labels().size());
  if (setup.scores.count > 0)
    log_info("{:<12} numbers, of mean {:.4g} and deviation {:.4g}", "labels", setup.scores.mean,
             setup.scores.deviation);
  if (setup.data->size() > 0)
    log_info("{:<12} {}{}", "examples", setup.data->size(),
             setup.dev ? fmt::format(", dev {}", setup.dev->size()) : "");
  const int threads = setup.open.threads->threads();
  log_info("{:<12} {} {}, {} thread{}", "machine", setup.open.machine.backend->name,
           setup.open.machine.backend->variant, threads, threads == 1 ? "" : "s");
  const report::RunPlan plan{report::report_of(trainer.engine().model(), setup.folder), memory,
                             setup.options.batch * setup.options.accumulate * setup.options.length};
  log_lines(report::to_text(plan));
  if (setup.fit)
    log_lines(report::to_text(*setup.fit) + "\n" +
              report::render(report::fit_table(*setup.fit), report::Format::table));
}

std::function<void(const Folder&)> copy_from(const std::string& source) {
  if (source.empty()) return {};
  return [source](const Folder& folder) {
    io::SkippedFiles skipped;
    io::copy_side_files(source, folder, io::CopyLayout::on_top, io::CopyOver::replace, skipped);
  };
}

// `steps`: number of steps taken in this call.
train::RunResult learn(const OptionValues& values, RunSetup& setup, std::int64_t& steps) {
  report::Progress progress;
  train::Trainer* trainer_here = nullptr;
  train::TrainCallbacks callbacks;
  callbacks.start = [&](const engine::MemoryTable& memory) { print_head(values, setup, *trainer_here, memory); };
  callbacks.first_step = [&](std::int64_t step, std::int64_t of) { progress.begin(step, of); };
  callbacks.step = [&](const train::StepReport& step, bool due) {
    progress.step(line_of(step, setup.options.max_seconds), due);
    ++steps;
  };
  callbacks.evaluation = [&](std::int64_t step, const engine::Evaluation& evaluation, bool best) {
    log_info("{}", evaluation_line(setup.options.task, step, evaluation, best));
  };
  const train::TrainInputs inputs{.machine = setup.open.machine,
                                  .factory = setup.factory,
                                  .data = setup.data,
                                  .dev = setup.dev,
                                  .recipe = setup.recipe,
                                  .resume = setup.resume,
                                  .skip_damaged = values.flag("override"),
                                  .teacher = setup.teacher.get(),
                                  .start = setup.start,
                                  .side_files = copy_from(setup.source),
                                  .cheaper = [&](std::size_t bytes, std::size_t free) {
                                    return train::next_cheaper(values, bytes, free, step_planner(setup));
                                  }};
  train::Trainer trainer(inputs, setup.options, *setup.run, callbacks);
  trainer_here = &trainer;
  return trainer.run();
}

report::Explanation explain(const OptionValues& values, RunSetup& setup, const engine::Engine& engine) {
  std::vector<train::PlannedChoice> policies =
      train::plan_choices(values, train::memory_policies(values), step_planner(setup));
  predict_times(policies, values, setup, machine_memory() / 4);
  return {.assumed = setup.assumed,
          .tensors = engine.tensors_at_peak(),
          .policies = std::move(policies),
          .current = train::current_choice(values)};
}

void print_explanation(const report::Explanation& explanation, const engine::MemoryTable& memory) {
  std::string assumed;
  for (const auto& [name, value] : explanation.assumed)
    assumed += fmt::format("{}{} {}", assumed.empty() ? "assumed without data: " : ", ", name, value);
  if (!assumed.empty()) print_out("\n" + report::wrap_for_stdout(assumed + "\n"));
  for (const report::Table& table : {report::work_table(memory), report::tensors_table(explanation.tensors),
                                     report::policies_table(explanation.policies, explanation.current)})
    print_out("\n" + report::render_for_stdout(table));
  print_out("\n" + report::wrap_for_stdout(report::notes(explanation.policies)));
}

}  // namespace

void add_core_rates(std::vector<Option>& rows, const std::string& factor) {
  const auto rate = std::find_if(rows.begin(), rows.end(), [](const Option& row) { return row.name == "lr-cores"; });
  rows.insert(rate + 1, {.name = "core-rates",
                         .type = OptionType::choice,
                         .default_text = "structured",
                         .group = "Training",
                         .help = fmt::format("learning rates of cores: structured: --lr-cores times a factor {} "
                                             "(AdamW); uniform: --lr-cores for each",
                                             factor),
                         .choices = {"structured", "uniform"},
                         .result_relevant = true});
}

void add_run_options(OptionTable& table) {
  table.add(train::run_options())
      .add(machine_options())
      .add(precision_options())
      .add({json_option()})
      .add(common_options());
  table.only_with({"task=mlm"}, {"mask-probability", "whole-words", "first-length"})
      .only_with({"task=ctr"}, {"schema", "min-count", "hash-rows"})
      .only_with({"task=image"}, {"crop", "flip"})
      .only_with({"task=clm"}, {"document-end"})
      .only_with({"task=classify|regression|multilabel|tag"}, {"label"})
      .only_with({"dev"}, {"eval-every", "patience", "best-by"})
      .only_with({"eval-every"}, {"patience"})
      .only_with({"schedule=linear|cosine"}, {"lr-final"})
      .only_with({"adapt-ranks"}, {"tau", "gamma", "rank-penalty", "prune-every"})
      .only_with({"target-ratio", "target-size", "target-fraction"},
                 {"late-after", "loss-tolerance", "rho-loss", "rho-size", "scheduled-cuts"})
      .only_with({"scheduled-cuts=0"}, {"loss-tolerance", "rho-loss", "rho-size"});
  table.foreign_table("hashes").foreign_table("paths").foreign_table("files");
}

int plan_run(const OptionValues& values, RunSetup& setup) {
  const train::TrainOptions& options = setup.options;
  StepEngine planned = plan_step(values, setup);
  const report::RunPlan plan{report::report_of(planned.engine->model(), values.text("model")), planned.step.memory,
                             options.batch * options.accumulate * options.length};
  std::optional<report::Explanation> explanation;
  if (values.flag("explain")) explanation = explain(values, setup, *planned.engine);
  if (values.flag("json")) {
    report::Json json = report::to_json(plan);
    if (explanation) report::add_to(json, plan.memory, *explanation);
    if (setup.fit) report::add_to(json, *setup.fit);
    print_out(report::dump(json) + "\n");
    return 0;
  }
  print_out(report::wrap_for_stdout(report::to_text(plan)) + "\n" +
            report::render_for_stdout(report::memory_by_place(plan.memory)));
  if (explanation) print_explanation(*explanation, plan.memory);
  if (setup.fit)
    print_out("\n" + report::wrap_for_stdout(report::to_text(*setup.fit) + "\n") + "\n" +
              report::render_for_stdout(report::fit_table(*setup.fit)) + "\n" +
              report::wrap_for_stdout(report::notes(setup.fit->rows)));
  return 0;
}

int train_and_report(const OptionValues& values, RunSetup setup) {
  const std::string& verb = values.table().verb();
  std::int64_t steps = 0;
  const StopAnswer answer("stopping; the steps done are kept; again to quit now", false);
  catch_size_limit();
  return_freed_memory();
  const train::RunResult result = learn(values, setup, steps);
  if (result.end == train::RunEnd::signal) {
    log_info("stopped by signal {} after step {}; continue with: comera {} --resume {}", result.signal, result.step,
             verb, setup.folder);
    return 128 + result.signal;
  }
  // A run that had already ended keeps its report, because this call has measured no step.
  if (steps == 0 && values.flag("override"))
    log_warning(
        "the run had ended, so no step followed: its recipe stays, and changed options had no effect; to go on, "
        "give more --steps, --epochs or --max-time, or another --patience");
  const std::string path = join_path(setup.folder, "report.json");
  if (steps > 0 || !path_exists(path))
    report::write_run_report(
        report::make_run_report(verb, setup.folder, settings_of(values), models::common(setup.spec).task,
                                models::common(setup.spec).labels, result),
        setup.run->folder());
  log_info("{} has the model, metrics.jsonl, report.json and report.html", setup.folder);
  const std::string text = read_file(path, io::largest_report);
  if (values.flag("json"))
    print_out(text);
  else
    print_out(report::render_for_stdout(report::runs_table(report::read_runs(std::span(&setup.folder, 1)))) +
              report::wrap_for_stdout(report::memory_line(io::parse_json(text, path)) + "\n"));
  return 0;
}

}  // namespace comera::tools
