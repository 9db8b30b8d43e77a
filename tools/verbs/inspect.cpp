// `comera inspect`.

#include "lib/core/error.h"
#include "lib/core/terminal/log.h"
#include "lib/engine/unused_tensors.h"
#include "lib/report/output/fit.h"
#include "lib/report/output/html.h"
#include "lib/report/run/rank_map.h"
#include "lib/report/run/runs_page.h"
#include "lib/report/run/runs_table.h"
#include "lib/report/weights/model_report.h"
#include "lib/report/weights/tensorize_report.h"
#include "tools/calibration.h"
#include "tools/machine.h"
#include "tools/stored_model.h"
#include "tools/verbs.h"

namespace comera::tools {
namespace {

std::string rendered(const OptionValues& values, const report::Table& table, const report::Json& json,
                     const std::string& html) {
  if (values.flag("json")) return report::dump(json) + "\n";
  const report::Format format = report::parse_format(values.text("format"));
  if (format == report::Format::html) return html;
  return report::render_for_stdout(table, format);
}

// A folder of a known architecture that cannot be run is shown all the same; the verbs that run it say why they cannot.
void warn_of_unused(const std::string& path) {
  std::vector<std::string> names;
  try {
    if (!models::has_known_type(io::ModelFolder(path))) return;
    names = engine::unused_tensors(path, *models::make_model(models::spec_from_folder(path), DType::f32));
  } catch (const InputError& error) {
    log_detail("{}: its tensors are not compared with its config.json: {}", path, error.what());
  }
  engine::warn_of_unused(path, names);
}

report::ModelReport read(const OptionValues& values, std::size_t index) {
  if (const std::string& path = values.positionals()[index]; path.ends_with(".onnx"))
    fail_input(
        "[inspect] {}: is an ONNX graph; run folders, checkpoints, model folders and .safetensors files are shown "
        "here, a graph's matrices by "
        "`comera tensorize {} --ratio 2 --dry-run`",
        path, path);
  report::ModelReport model = report::read_model_report(values.positionals()[index]);
  warn_of_unused(values.positionals()[index]);
  if (values.has("filter")) report::filter(model, values.text("filter"));
  if (values.has("sort")) report::sort(model, values.text("sort"));
  return model;
}

int verify(const OptionValues& values) {
  if (values.positionals().size() != 1)
    fail_input("[inspect] --verify takes one folder, and names the dense model that it was made from");
  const std::string& dense = values.text("verify");
  const OpenMachine open = open_machine(values);
  // The calibration stopped at the sequence that reached its limit. With the number of tokens read as the limit, the
  // same sequences are read again.
  const std::optional<compress::MomentsInfo> certified = compress::certified_calibration(values.positionals()[0]);
  const std::unique_ptr<compress::InputMoments> moments =
      open_calibration(values, open.machine, dense, "", certified ? &*certified : nullptr);
  const compress::Verification verification =
      compress::verify(values.positionals()[0], dense, moments.get(), *open.threads, adapter_of(values));
  print_out(
      rendered(values, report::verification_table(verification), report::to_json(verification),
               report::table_page("verify " + values.positionals()[0], {}, report::verification_table(verification))));
  if (verification.holds()) {
    log_info("{} more tensors are those of {}, byte for byte", verification.others, dense);
    return 0;
  }
  for (const compress::LayerCheck& layer : verification.layers)
    if (!layer.fault.empty())
      fail_run("[inspect] {}: {} is not as certified: {}", values.positionals()[0], layer.name, layer.fault);
  const compress::OtherFault& first = verification.other_faults.front();
  fail_run("[inspect] {}: {} is not that of {}: {}", values.positionals()[0], printable(first.name), dense,
           first.fault);
}

}  // namespace

OptionTable inspect_table() {
  OptionTable table(
      "inspect",
      "show the parts of a model: forms, modes, ranks, parameters, bytes; headers are read, weights are not");
  table.positional({.name = "PATH",
                    .help = "a run folder, a checkpoint, a Hugging Face folder, a .safetensors or a GGUF file; two "
                            "are compared; with --runs any number of runs",
                    .maximum = -1});
  table.add(
      {{.name = "format",
        .type = OptionType::choice,
        .default_text = "table",
        .group = "Output",
        .help = "output format",
        .choices = {"table", "md", "csv", "jsonl", "html"}},
       json_option(),
       {.name = "runs",
        .type = OptionType::flag,
        .group = "Output",
        .help = "one row per finished run: accuracy, size, speed, memory"},
       {.name = "sort",
        .group = "Output",
        .help = "order by a column (parameters, ratio, name, ...): numbers largest first; -KEY reverses the order",
        .metavar = "KEY"},
       {.name = "filter",
        .group = "Output",
        .help = "show only weights whose name matches; without wildcards any part of a name",
        .metavar = "GLOB"}});
  table.add({{.name = "verify",
              .type = OptionType::path,
              .group = "Verification",
              .help = "recompute the certificate from the dense model, and compare all other tensors with the dense "
                      "model's; a difference ends with exit code 1",
              .metavar = "MODEL",
              .in_config = false}});
  Option adapter = adapter_option();
  adapter.group = "Verification";
  adapter.help = "the LoRA adapter of PEFT that was merged into MODEL";
  table.add({adapter});
  std::vector<Option> calibration = calibration_options();
  for (Option& option : calibration)
    if (option.name == "calibrate-tokens") option.default_words = "as many as the certificate records";
  std::vector<std::string> names;
  for (const Option& option : calibration) names.push_back(option.name);
  table.add(std::move(calibration)).add(machine_options()).add(common_options());
  table.only_with({"verify"}, names);
  table.synonyms({"info", "show", "describe", "list", "ls", "print", "view", "summary", "cat", "diff", "compare"});
  table.common({"format", "json", "sort", "filter", "runs", "verify", "calibrate"});
  table.example("comera inspect run --sort bytes")
      .example("comera inspect run --format html > run.html")
      .example("comera inspect before after")
      .example("comera inspect small --verify all-MiniLM-L6-v2")
      .example("comera inspect --runs dense tt --format html > runs.html");
  return table;
}

int run_inspect(const OptionValues& values) {
  if (values.has("verify")) return verify(values);
  if (values.has("adapter"))
    fail_input("[inspect] --adapter belongs to the MODEL of --verify; to see a merged model, `comera export` it first");
  refuse_without_effect(values);
  if (values.flag("runs")) {
    const std::vector<report::FinishedRun> runs = report::read_runs(values.positionals());
    const report::Table table = report::runs_table(runs);
    report::Json json = report::document("runs");
    json["runs"] = report::to_json(table);
    print_out(rendered(values, table, json, report::runs_page(table, report::rank_map(runs))));
    return 0;
  }
  if (values.positionals().size() > 2)
    fail_input("[inspect] {} paths came; one is shown and two are compared, weight by weight; use --runs for more",
               values.positionals().size());
  const report::ModelReport model = read(values, 0);
  if (values.positionals().size() == 1) {
    print_out(rendered(values, report::layer_table(model), report::to_json(model), report::to_html(model)));
    return 0;
  }
  const report::ModelReport other = read(values, 1);
  print_out(rendered(values, report::compare_table(model, other), report::compare_json(model, other),
                     report::compare_html(model, other)));
  return 0;
}

}  // namespace comera::tools
