// `comera bench`.
#include "lib/report/bench/bench.h"

#include <fmt/core.h>

#include <algorithm>

#include "kernels/host/cpu_backend.h"
#include "lib/core/error.h"
#include "lib/core/join.h"
#include "lib/core/process.h"
#include "lib/core/terminal/log.h"
#include "lib/plan/precision.h"
#include "lib/report/output/fit.h"
#include "lib/train/train_options.h"
#include "lib/tt/modes.h"
#include "lib/tuning/path_choices.h"
#include "models/model_options.h"
#include "tools/images.h"
#include "tools/machine.h"
#include "tools/verbs.h"

namespace comera::tools {
namespace {

// The part to time: the name of the option that selects it.
std::string work_of(const OptionValues& values) {
  if (values.has("linear") && values.has("table"))
    fail_input("[bench] --linear and --table are two benches; give one of them");
  return values.has("linear") ? "linear" : values.has("table") ? "table" : "model";
}

report::Json settings_of(const OptionValues& values, const OpenMachine& open, const report::Json& measured) {
  report::Json json;
  json[work_of(values)] = values.text(work_of(values));
  json["form"] = values.text("form");
  if (values.has("rank")) json["rank"] = values.integer("rank");
  json["batch"] = values.integer("batch");
  json["seq"] = values.integer("seq");
  json.update(measured);
  json["device"] = open.machine.backend->name;
  json["dtype"] = values.text("dtype");
  json["threads"] = open.threads->threads();
  json["cpu"] = cpu_name();
  json["blas"] = kernels::cpu_blas_description();
  return json;
}

// Takes the task, and as many tokens as the model can, from the preset where they are not given.
void settle_model(OptionValues& values) {
  const models::ModelSpec sized = models::sized_spec(values);
  const models::Spec& spec = models::common(sized);
  if (!values.given("task")) values.set("task", data::name_of(spec.task), OptionSource::fallback);
  if (const auto* vit = std::get_if<models::VitSpec>(&sized)) {
    settle_image_tokens(values, *vit);
  } else if (!values.given("seq")) {
    values.set("seq", std::to_string(std::min(values.integer("seq"), spec.positions)), OptionSource::fallback);
  }
}

report::BenchReport bench_model(const OptionValues& values, const plan::Machine& machine,
                                const report::BenchOptions& options) {
  models::DataFacts facts;
  facts.task = train::task_of(values);
  facts.max_length = options.length;
  const models::ModelSpec spec = models::spec_from_options(values, facts);
  engine::EngineOptions how;
  train::OptimizerOptions update;
  train::read_memory_options(values, how, update);
  how.call_by_call = values.flag("call-by-call");
  how.update = train::optimizer(update);
  engine::Engine engine(machine, models::factory_of(spec, machine.dtype), how);
  report::BenchReport report;
  report.rows = report::time_steps(engine, models::common(spec).task, models::common(spec).vocabulary,
                                   static_cast<std::int64_t>(models::common(spec).labels.size()), options);
  report.settings["task"] = values.text("task");
  report.settings["dropout"] = models::common(spec).dropout;
  report.settings["activations"] = values.has("activations") ? values.canonical("activations") : "keep";
  report.settings["optimizer"] = join(train::counted_methods(values.list("optimizer")), ",");
  report.settings["parameters"] = engine.model().parameters().count();
  return report;
}

struct Sizes {
  std::int64_t first, second;
};
Sizes sizes_of(const OptionValues& values, const char* option, const char* example) {
  const std::string& text = values.text(option);
  const std::size_t x = text.find('x');
  const auto first = parse_integer(text.substr(0, x)),
             second = x == std::string::npos ? std::nullopt : parse_integer(text.substr(x + 1));
  if (!first || !second || *first < 1 || *second < 1 || *first > 1 << 28 || *second > 1 << 20)
    fail_input("[bench] --{} {}: expected two sizes, such as {}", option, text, example);
  return {*first, *second};
}

report::LinearBench linear_of(const OptionValues& values) {
  const auto [in, out] = sizes_of(values, "linear", "768x3072");
  report::LinearBench bench{.in = in, .out = out};
  if (values.text("form") == "dense") return bench;
  const std::int64_t rank = values.has("rank") ? values.integer("rank") : 30;
  tt::Layout layout;
  layout.modes = values.text("form") == "lowrank"
                     ? tt::Sizes{in, out}
                     : tt::linear_modes(in, out, static_cast<int>(values.integer("order")));
  layout.ranks = tt::uniform_ranks(layout.modes, rank, "[bench] --linear " + values.text("linear"));
  bench.form = layers::chain_form(std::move(layout));
  return bench;
}

report::LookupBench lookup_of(const OptionValues& values) {
  const auto [rows, columns] = sizes_of(values, "table", "30522x768");
  report::LookupBench bench{.rows = rows, .columns = columns};
  bench.zipf = values.flag("zipf");
  if (values.text("form") == "dense") return bench;
  if (values.text("form") != "tt") fail_input("[bench] --table {}: want --form tt or dense", values.text("table"));
  const std::int64_t rank = values.has("embedding-rank") ? values.integer("embedding-rank") : 32;
  tt::Layout layout;
  layout.kind = tt::Kind::ttm;
  layout.modes = tt::table_modes(rows, columns, static_cast<int>(values.integer("embedding-order")));
  layout.ranks = tt::uniform_ranks(layout.entry_sizes(), rank, "[bench] --table " + values.text("table"));
  bench.form = layers::chain_form(std::move(layout));
  return bench;
}

Option task_option() {
  return {.name = "task",
          .type = OptionType::choice,
          .default_text = "classify",
          .group = "Work",
          .help = "head and loss",
          .choices = {"classify", "mlm", "clm", "ctr", "image"},
          .default_words = "classify, or the only task of the model"};
}

Option call_by_call_option() {
  return {.name = "call-by-call",
          .type = OptionType::flag,
          .group = "Work",
          .help = "start every call of a model's step by itself, not as a graph (GPUs): for a profiler"};
}

std::vector<Option> bench_options() {
  return {task_option(),
          {.name = "batch",
           .type = OptionType::integer,
           .default_text = "32",
           .group = "Work",
           .help = "sequences",
           .minimum = 1,
           .maximum = 65536,
           .synonyms = {"batch-size"}},
          {.name = "seq",
           .type = OptionType::integer,
           .default_text = "128",
           .group = "Work",
           .help = "tokens per sequence",
           .minimum = 1,
           .maximum = 65536,
           .default_words = "128, or the most that the model takes",
           .synonyms = {"max-length", "sequence-length", "context-length"}},
          {.name = "linear",
           .group = "Work",
           .help = "time one linear layer of this size instead of a model, batch x seq tokens",
           .metavar = "INxOUT"},
          {.name = "table",
           .group = "Work",
           .help = "time look-ups in one word table of this size, batch x seq ids",
           .metavar = "ROWSxCOLUMNS"},
          {.name = "zipf",
           .type = OptionType::flag,
           .group = "Work",
           .help = "with --table: the logarithms of the ids are uniform, as those of words sorted by frequency"},
          call_by_call_option(),
          {.name = "warmup",
           .type = OptionType::integer,
           .default_text = "2",
           .group = "Work",
           .help = "untimed steps before the measurement",
           .minimum = 1,
           .maximum = 1000},
          {.name = "repetitions",
           .type = OptionType::integer,
           .default_text = "5",
           .group = "Work",
           .help = "timed steps",
           .minimum = 1,
           .maximum = 100000,
           .synonyms = {"iterations", "repeat", "runs", "steps"}},
          {.name = "format",
           .type = OptionType::choice,
           .default_text = "table",
           .group = "Output",
           .help = "output format",
           .choices = {"table", "md", "csv", "jsonl", "html"}},
          json_option()};
}

std::vector<Option> bench_machine_options() {
  std::vector<Option> options = machine_options();
  Option& isa =
      *std::find_if(options.begin(), options.end(), [](const Option& option) { return option.name == "isa"; });
  isa.choices.insert(isa.choices.begin(), "all");
  isa.default_text = "all";
  isa.help =
      "instruction set of the CPU; all: the whole step under each set of this machine, its parts under the best one";
  return options;
}

// Instruction sets to time, best first. Only one if --isa names one or the device is not the CPU.
std::vector<std::string> sets_of(const OptionValues& values) {
  if (values.text("isa") != "all") return {values.text("isa")};
  if (values.text("device") != "cpu") return {"auto"};
  std::vector<std::string> sets;
  for (const char* isa : kernels::cpu_isas)
    if (kernels::cpu_supports(isa) && plan::cpu_computes(values.text("dtype"), isa)) sets.emplace_back(isa);
  return sets.empty() ? std::vector<std::string>{"auto"} : sets;  // "auto" fails with the name of the missing set
}

report::BenchReport bench_work(const OptionValues& values, const std::string& isa, bool parts) {
  OpenMachine open = open_machine(values, values.text("dtype"), isa);
  tuning::PathChoices paths;
  open.machine.paths = &paths;  // choices are measured, as in training
  const report::BenchOptions options{.warmup = static_cast<int>(values.integer("warmup")),
                                     .repetitions = static_cast<int>(values.integer("repetitions")),
                                     .batch = values.integer("batch"),
                                     .length = values.integer("seq"),
                                     .parts = parts};
  const std::string work = work_of(values);
  const double peak_gflops = report::measure_peak_gflops(open.machine);
  const double copy_gb_per_s = work == "model" ? 0 : report::measure_copy_gb_per_s(open.machine);
  report::BenchReport report = work == "linear"  ? report::bench_linear(open.machine, linear_of(values), options)
                               : work == "table" ? report::bench_lookup(open.machine, lookup_of(values), options)
                                                 : bench_model(values, open.machine, options);
  report.peak_gflops =
      // the first value may be too low if other processes were running
      std::max(peak_gflops, report::measure_peak_gflops(open.machine));
  report.peak_work = report::peak_work(open.machine);
  report.copy_gb_per_s = copy_gb_per_s;
  report.settings = settings_of(values, open, report.settings);
  for (report::BenchRow& row : report.rows) row.isa = open.machine.backend->variant;
  return report;
}

}  // namespace

OptionTable bench_table() {
  OptionTable table("bench", "time one training step and its parts on this machine, without data");
  table.add(models::model_options())
      .add(bench_options())
      .add(train::memory_options("Work"))
      .add(bench_machine_options())
      .add(precision_options())
      .add(common_options());
  table.synonyms({"benchmark", "profile", "time", "speed"});
  table.common({"model", "form", "rank", "linear", "table", "batch", "seq", "isa", "threads", "format"});
  table.example("comera bench --model mnli-6enc --form tt --rank 30 --batch 32 --seq 128 --format md");
  return table;
}

int run_bench(const OptionValues& given) {
  OptionValues values = given;
  train::refuse_settings_without_effect(values);
  if (work_of(values) == "model") settle_model(values);
  report::BenchReport report;
  for (const std::string& isa : sets_of(values)) {
    if (report.rows.empty()) {
      report = bench_work(values, isa, true);
    } else {
      report::add_step(report, bench_work(values, isa, false));
    }
  }
  if (values.flag("json")) {
    print_out(report::dump(report::to_json(report)) + "\n");
    return 0;
  }
  const report::Format format = report::parse_format(values.text("format"));
  for (const auto& [key, value] : report.settings.items())
    log_info("{:<12}{}", key, value.is_string() ? value.get<std::string>() : value.dump());
  log_info("{:<12}{:.0f} GFLOP/s, {}", "peak", report.peak_gflops, report.peak_work);
  for (const report::BenchRow& row : report.rows)
    if (row.peak_gflops > 0) log_info("{:<12}{:.0f} GFLOP/s under {}", "", row.peak_gflops, row.isa);
  if (report.copy_gb_per_s > 0) log_info("{:<12}{:.1f} GB/s read and written in copies", "copy", report.copy_gb_per_s);
  if (const auto launches = report.rows.front().launches) log_info("{:<12}{} a step", "launches", *launches);
  if (format == report::Format::html) {
    print_out(report::to_html(report));
    return 0;
  }
  const bool for_scripts = format == report::Format::csv || format == report::Format::jsonl;
  const report::Table table = report::bench_table(report, for_scripts);
  print_out(report::render_for_stdout(for_scripts ? table : report::without_empty_columns(table), format));
  return 0;
}

}  // namespace comera::tools
