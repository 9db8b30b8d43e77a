#include <cmath>

#include "lib/core/file.h"
#include "lib/core/log.h"
#include "lib/core/process.h"
#include "lib/io/json.h"
#include "lib/report/plan_report.h"
#include "lib/report/progress.h"
#include "lib/report/runs_table.h"
#include "models/model_options.h"
#include "tools/run_setup.h"
#include "tools/verbs.h"

namespace comera::tools {
namespace {

void log_lines(const std::string& text) {
  for (std::size_t start = 0, end; (end = text.find('\n', start)) != std::string::npos; start = end + 1)
    log_info("{}", text.substr(start, end - start));
}

report::StepLine line_of(const train::StepReport& step) {
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
  if (step.has_ranks) line.rank = step.mean_rank, line.ratio = step.ratio;
  return line;
}

std::string evaluation_line(std::int64_t step, data::Task task, const train::Evaluation& evaluation, bool best) {
  const std::string perplexity = predicts_words(task) ? fmt::format("  dev perplexity {:.4g}", std::exp(evaluation.loss)) : "";
  return fmt::format("step {}  dev loss {:.4g}{}  dev accuracy {:.2f} %{}", step, evaluation.loss, perplexity, 100 * evaluation.accuracy,
                     best ? "  best so far" : "");
}

int dry_run(const OptionValues& values) {
  const train::TrainOptions options = train::train_options(values);
  const models::ModelSpec spec = spec_without_data(values);
  const OpenMachine open = open_machine(values);
  train::Engine engine(open.machine, models::factory_of(spec, open.machine.dtype), options.engine);
  engine.plan_training(train::planning_batch(models::common(spec).task, options.batch, options.length, options.mask_probability));
  const report::RunPlan plan{report::report_of(engine.model(), values.text("model")), engine.memory_table(options.accumulate),
                             options.batch * options.accumulate * options.length};
  if (values.flag("json"))
    print_out(report::dump(report::to_json(plan)) + "\n");
  else
    print_out(report::to_text(plan) + "\n" + report::render(report::memory_by_place(plan.memory), report::Format::table));
  return 0;
}

void print_head(const OptionValues& values, const RunSetup& setup, train::Trainer& trainer, const train::MemoryTable& memory) {
  for (const auto& [name, value] : settings_of(values)) log_info("{:<12} {}", name, value);
  if (!setup.data->labels().empty()) log_info("{:<12} {}", "labels", setup.data->labels().size());
  if (setup.data->size() > 0) log_info("{:<12} {}{}", "examples", setup.data->size(), setup.dev ? fmt::format(", dev {}", setup.dev->size()) : "");
  log_info("{:<12} {} {}, {} threads", "machine", setup.open.machine.backend->name, setup.open.machine.backend->variant,
           setup.open.threads->threads());
  const report::RunPlan plan{report::report_of(trainer.engine().model(), setup.folder), memory,
                             setup.options.batch * setup.options.accumulate * setup.options.length};
  log_lines(report::to_text(plan));
}

// `steps`: how many were taken in this call.
train::RunResult learn(const OptionValues& values, const RunSetup& setup, std::int64_t& steps) {
  using Open = train::RunFolder::Open;
  train::RunFolder folder(setup.folder, setup.resume ? Open::resume : values.flag("force") ? Open::replace : Open::fresh);
  report::Progress progress;
  train::Trainer* trainer_here = nullptr;
  train::TrainCallbacks callbacks;
  callbacks.start = [&](const train::MemoryTable& memory) { print_head(values, setup, *trainer_here, memory); };
  callbacks.step = [&](const train::StepReport& step, bool due) {
    progress.step(line_of(step), due);
    ++steps;
  };
  callbacks.evaluation = [&](std::int64_t step, const train::Evaluation& evaluation, bool best) {
    log_info("{}", evaluation_line(step, models::common(setup.spec).task, evaluation, best));
  };
  const train::TrainInputs inputs{setup.open.machine, models::factory_of(setup.spec, setup.open.machine.dtype), setup.data, setup.dev, setup.recipe,
                                  setup.resume};
  train::Trainer trainer(inputs, setup.options, folder, callbacks);
  trainer_here = &trainer;
  return trainer.run();
}

}  // namespace

OptionTable pretrain_table() {
  OptionTable table("pretrain", "learn a task in tensor-train form, ranks falling on the way");
  table.add(train::data_options()).add(models::model_options()).add(train::training_options()).add(train::rank_options());
  table.add(train::run_options()).add(machine_options()).add({json_option()}).add(common_options()).foreign_table("hashes");
  table.example(
      "comera pretrain --model encoder-small --form tt --rank 16 --data train.tsv --dev dev.tsv --text premise,hypothesis \\\n"
      "      --tokenizer vocab.txt --steps 2000 --batch 32 -o run");
  return table.example("comera pretrain --resume run").example("comera pretrain --model mnli-6enc --batch 32 --seq 128 --dry-run");
}

int run_pretrain(const OptionValues& given) {
  OptionValues values = given;
  if (values.flag("dry-run")) return dry_run(values);
  catch_stop_signals();
  const RunSetup setup = set_up_run(values);
  std::int64_t steps = 0;
  const train::RunResult result = learn(values, setup, steps);
  if (result.end == train::RunEnd::signal) {
    log_info("stopped by signal {} after step {}; go on with: comera pretrain --resume {}", result.signal, result.step, setup.folder);
    return 128 + result.signal;
  }
  // A run that had ended before keeps the report of the session that measured something.
  const std::string path = join_path(setup.folder, "report.json");
  if (steps > 0 || !path_exists(path))
    report::write_run_report(report::make_run_report("pretrain", setup.folder, settings_of(values), models::common(setup.spec).task, result));
  log_info("{} has the model, metrics.jsonl, report.json and report.html", setup.folder);
  const std::string text = read_file(path);
  if (values.flag("json"))
    print_out(text);
  else
    print_out(report::render(report::runs_table(std::span(&setup.folder, 1)), report::Format::table) +
              report::memory_line(io::parse_json(text, path)) + "\n");
  return 0;
}

}  // namespace comera::tools
