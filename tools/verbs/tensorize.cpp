// `comera tensorize`.
#include "lib/compress/tensorize.h"

#include <fmt/core.h>

#include "lib/compress/plan/plan_file.h"
#include "lib/core/error.h"
#include "lib/core/terminal/log.h"
#include "lib/core/terminal/stop.h"
#include "lib/engine/weights_file.h"
#include "lib/export/counted_onnx.h"
#include "lib/report/output/fit.h"
#include "lib/report/weights/tensorize_report.h"
#include "lib/report/weights/tensorize_words.h"
#include "models/architecture.h"
#include "tools/calibration.h"
#include "tools/compression.h"
#include "tools/machine.h"
#include "tools/stored_model.h"
#include "tools/tensorize_onnx.h"
#include "tools/verbs.h"

namespace comera::tools {
namespace {

bool only_plans(const OptionValues& values) { return values.flag("dry-run") || values.has("dump-plan"); }

void check_output(const OptionValues& values, const std::string& output) {
  if (only_plans(values)) return;
  if (output.empty()) fail_input("[tensorize] --output is missing: name the folder to write");
  if (path_exists(output) && !is_empty_folder(output))
    fail_input("[tensorize] {}: exists already; name another folder, or remove it first", output);
}

// "3m20s: 12s for the plan, 1m for passes of the text, ...".
std::string time_line(const compress::TimeNeeds& needs) {
  std::string parts =
      fmt::format("{} for the plan, {} for fits", format_seconds(needs.plan), format_seconds(needs.fits));
  if (needs.text > 0) parts += fmt::format(", {} for passes of the text", format_seconds(needs.text));
  if (needs.refinement > 0) parts += fmt::format(", {} for refinement", format_seconds(needs.refinement));
  return fmt::format("the run would take about {} here: {}\n", format_seconds(needs.all()), parts);
}

void print_plans(const OptionValues& values, const compress::Tensorizer& tensorizer) {
  std::optional<compress::TimeNeeds> times;
  if (values.flag("dry-run")) times = tensorizer.time_needs();
  if (values.flag("json")) {
    report::Json json = report::document("tensorize-plan");
    if (times)
      json["seconds"] = {{"all", times->all()},
                         {"plan", times->plan},
                         {"fits", times->fits},
                         {"text", times->text},
                         {"refinement", times->refinement}};
    json["plans"] = report::Json::array();
    for (std::size_t size = 0; size < tensorizer.sizes().size(); ++size)
      json["plans"].push_back(report::plan_json(tensorizer, size));
    return print_out(report::dump(json) + "\n");
  }
  for (std::size_t size = 0; size < tensorizer.sizes().size(); ++size) {
    const report::LayerLines lines = report::tensorize_plan_lines(tensorizer, size);
    print_out(report::render_for_stdout(lines.table));
    for (const std::string& note : lines.notes) print_out(report::wrap_for_stdout(note + "\n"));
  }
  const compress::CalibrationNeeds needs = tensorizer.calibration_needs();
  print_out(
      report::wrap_for_stdout(fmt::format("calibration would need about {} of memory for the widest layer and its "
                                          "moments, and {} of disk for the outputs of blocks\n",
                                          format_bytes(needs.memory), format_bytes(needs.scratch))));
  if (times) print_out(report::wrap_for_stdout(time_line(*times)));
}

// Writes report.json and report.html into the output folder, or beside the output file.
void write_reports(const compress::Result& result) {
  const std::string place = result.output + (result.format.folder ? "/" : ".");
  write_file_atomic(place + "report.json", report::dump(report::to_json(result)) + "\n");
  write_file_atomic(place + "report.html", report::to_html(result));
}

void print_results(const OptionValues& values, const std::vector<compress::Result>& results) {
  const bool several = results.size() > 1;
  if (several) {
    const std::string& folder = values.text("output");
    write_file_atomic(join_path(folder, "report.json"), report::dump(report::to_json(std::span(results))) + "\n");
    write_file_atomic(join_path(folder, "report.html"), report::to_html(std::span(results)));
  }
  if (values.flag("json"))
    return print_out(report::dump(several ? report::to_json(std::span(results)) : report::to_json(results[0])) + "\n");
  const report::LayerLines layers =
      several ? report::LayerLines{report::tensorize_sizes(results), {}} : report::tensorize_layers(results[0]);
  print_out(report::render_for_stdout(layers.table));
  for (const std::string& note : layers.notes) print_out(report::wrap_for_stdout(note + "\n"));
  for (const compress::Result& result : results)
    print_out(report::wrap_for_stdout(report::summary(result, &result == &results.back())));
}

void require_error(const OptionValues& values, const std::vector<compress::Result>& results) {
  if (!values.has("max-error")) return;
  const double most = values.real("max-error");
  for (const compress::Result& result : results) {
    const double worst = result.errors().worst, unmeasured = result.unmeasured_errors().worst;
    if (worst > most)
      fail_run("[tensorize] --max-error {} is not met: the worst {} of {} is {:.4f}", most, report::error_name(result),
               result.output, worst);
    if (unmeasured > most)
      fail_run("[tensorize] --max-error {} is not met: the worst weight error of {} in {} is {:.4f}", most,
               report::unmeasured_name(result), result.output, unmeasured);
  }
}

// Ranks and bits are chosen by errors in the dense model. In the compressed one a layer has other inputs.
void warn_of_tolerance(const OptionValues& values, const std::vector<compress::Result>& results) {
  if (!values.given("tol")) return;
  const double tolerance = values.real("tol");
  for (const compress::Result& result : results)
    if (const double worst = result.errors().worst; worst > tolerance)
      log_warning(
          "[tensorize] {}: the largest error of a layer is {:.4f}, above --tol {:g}, which was met in the dense model; "
          "give a smaller --tol, or --max-error to fail above a limit",
          result.output, worst, tolerance);
}

Option rank_option() {
  return {.name = "rank",
          .type = OptionType::integer,
          .group = "Size",
          .help = "rank of all weights",
          .minimum = 1,
          .synonyms = {"lora-rank", "lora-r"}};
}

std::vector<Option> goal_options() {
  return {{.name = "output",
           .type = OptionType::path,
           .group = "Output",
           .help = "folder to write, or a file for an ONNX graph (several sizes: a folder of files); must not exist",
           .short_name = 'o',
           .in_config = false,
           .synonyms = {"output-dir", "out", "save-to"},
           .files = FileUse::written},
          {.name = "ratio",
           .type = OptionType::list,
           .group = "Size",
           .help = "dense / compressed bytes of the weights file; each of several ratios gets its own folder",
           .metavar = "R,...",
           .synonyms = {"compression", "compression-ratio", "factor"}},
          {.name = "budget",
           .type = OptionType::list,
           .group = "Size",
           .help = "bytes of the weights file; each of several budgets gets its own folder",
           .metavar = "BYTES,...",
           .synonyms = {"target-size", "bytes"}},
          {.name = "budget-of",
           .type = OptionType::choice,
           .default_text = "weights",
           .group = "Size",
           .help = "the file that --budget and --ratio count; onnx: the graph that `comera export` makes of the result "
                   "(fp32, form tt)",
           .choices = {"weights", "onnx"}},
          rank_option(),
          {.name = "tol",
           .type = OptionType::real,
           .group = "Size",
           .help = "largest relative error of every layer; with --calibrate as measured in the dense model",
           .minimum = 0,
           .maximum = 1,
           .synonyms = {"tolerance", "epsilon", "error"}},
          {.name = "plan",
           .type = OptionType::path,
           .group = "Size",
           .help = "a plan file from --dump-plan, edited or not",
           .metavar = "FILE"},
          {.name = "dump-plan",
           .type = OptionType::path,
           .group = "Output",
           .help = "write the plan and stop",
           .metavar = "FILE",
           .in_config = false,
           .files = FileUse::written},
          {.name = "dry-run",
           .type = OptionType::flag,
           .group = "Output",
           .help = "print the plan and the time that the run would take here, by samples of its work, and stop",
           .in_config = false},
          {.name = "max-error",
           .type = OptionType::real,
           .group = "Output",
           .help = "end with exit code 1 if a layer's relative error is larger",
           .minimum = 0}};
}

// Options that select weights and set exceptions.
std::vector<Option> choice_options() {
  return {{.name = "include",
           .type = OptionType::list,
           .group = "Form",
           .help = "only weights that match",
           .metavar = "GLOB",
           .synonyms = {"target-modules", "only"}},
          {.name = "exclude",
           .type = OptionType::list,
           .group = "Form",
           .help = "weights that stay dense",
           .metavar = "GLOB",
           .synonyms = {"skip", "ignore", "keep-dense"}},
          {.name = "layer",
           .type = OptionType::list,
           .group = "Form",
           .help = "exceptions: 'glob=rank:16', 'glob=form:dense', 'glob=form:tt;modes:24x16|384', 'glob=gauge:off', "
                   "'glob=exact:1024', 'glob=bits:3;group:128', 'glob=cores:8' (factors, cores or a correction in 4, 8 "
                   "or 16 bits)",
           .metavar = "RULE"}};
}

std::vector<Option> grid_options() {
  return {
      {.name = "bits",
       .type = OptionType::choice,
       .default_text = "none",
       .group = "Form",
       .help = "store weights as numbers of so many bits, in groups that share a scale; with --calibrate by GPTQ, and "
               "with a size low-rank corrections beside them; auto: bits of every layer, by --ratio or --budget",
       .choices = {"none", "auto", "2", "3", "4", "8"},
       .synonyms = {"quantize", "quantise", "quant", "wbits"}},
      {.name = "group",
       .type = OptionType::choice,
       .default_text = "32",
       .group = "Form",
       .help = "with --bits: numbers of 2, 3 or 4 bits that share a scale; a scale has 16 bits. By default --bits auto "
               "chooses between 32 and 128",
       .choices = {"32", "64", "128"},
       .synonyms = {"groupsize", "group-size", "block-size"}},
      {.name = "for",
       .type = OptionType::choice,
       .default_text = "any",
       .group = "Form",
       .help = "only forms that this format stores: gguf: dense, 4 and 8 bits, low-rank corrections; onnx: all but 2 "
               "and 3 bits (export --quantized); hf: dense, bits, low-rank corrections (export --to peft)",
       .choices = {"any", "gguf", "onnx", "hf"}},
      {.name = "sweeps",
       .type = OptionType::integer,
       .default_text = "4",
       .group = "Form",
       .help = "with --bits and --calibrate: passes of coordinate descent after GPTQ",
       .minimum = 0,
       .maximum = 1000},
      {.name = "corrections",
       .type = OptionType::flag,
       .group = "Form",
       .help = "with --bits auto and --calibrate: weights may also get a low-rank correction beside their numbers, or "
               "low-rank or TT form in place of them"}};
}

std::vector<Option> form_options() {
  return {{.name = "form",
           .type = OptionType::choice,
           .default_text = "auto",
           .group = "Form",
           .help = "form of the compressed weights: tt for linear layers, ttm for tables; auto: with --calibrate the "
                   "best by held-out error, else a low-rank pair",
           .choices = {"auto", "tt", "ttm", "lowrank"}},
          {.name = "order",
           .type = OptionType::integer,
           .group = "Form",
           .help = "modes per side of tt",
           .minimum = 1,
           .maximum = 8,
           .default_words = "2; with --calibrate 2 of the inputs and 1 of the outputs, fitted to the text"},
          {.name = "gauge",
           .type = OptionType::flag,
           .default_text = "true",
           .group = "Form",
           .help = "put an identity block into the last core, which saves R^2 numbers"},
          {.name = "exact-rows",
           .type = OptionType::integer,
           .default_text = "0",
           .group = "Form",
           .help = "with --calibrate: number of rows of each compressed table, the most frequent in the text, that are "
                   "stored exactly; beside --bits in half precision, and with a size as many as pay unless given",
           .metavar = "N",
           .minimum = 0},
          {.name = "uniform",
           .type = OptionType::flag,
           .group = "Form",
           .help = "give every layer the same share of its bytes, instead of water-filling"},
          {.name = "floor",
           .type = OptionType::real,
           .default_text = "0.5",
           .group = "Form",
           .help = "no layer gets less than this share of its uniform rank",
           .minimum = 0,
           .maximum = 1},
          {.name = "allow-slower",
           .type = OptionType::flag,
           .group = "Form",
           .help = "allow ranks at which a layer is slower than dense"},
          {.name = "sequential",
           .type = OptionType::flag,
           .default_text = "true",
           .group = "Form",
           .help = "with --calibrate: fit every layer to its inputs from the compressed blocks before it, and correct "
                   "their error in the residual stream"},
          {.name = "clip-tokens",
           .type = OptionType::flag,
           .default_text = "true",
           .group = "Form",
           .help = "with --calibrate: a token whose residual stream is more than twice as long as the median counts as "
                   "if it were twice as long; without it a few tokens with massive activations outweigh all others"},
          {.name = "again",
           .type = OptionType::flag,
           .group = "Form",
           .help = "accept a model that is tensorized already; its chains stay unchanged"}};
}

std::vector<Option> refinement_options() {
  const compress::Refinement defaults;
  return {
      {.name = "refine",
       .type = OptionType::choice,
       .default_text = "auto",
       .group = "Calibration",
       .help =
           "with --calibrate: train a block on the outputs of the dense block, after its layers are fitted: factors, "
           "biases, norms, and numbers on grids that have no correction; auto: blocks with chains or fewer than 4 "
           "bits, if that takes about a minute and a half or less",
       .choices = {"auto", "always", "never"},
       .without_value = "always"},
      {.name = "refine-steps",
       .type = OptionType::integer,
       .default_text = std::to_string(defaults.steps),
       .group = "Calibration",
       .help = "training steps of a block, of at most 2,048 tokens each",
       .minimum = 1,
       .maximum = 1000000},
      {.name = "refine-lr",
       .type = OptionType::real,
       .default_text = format_real(defaults.rate),
       .group = "Calibration",
       .help = "largest learning rate, relative to the numbers of each tensor",
       .minimum = 0,
       .maximum = 1}};
}

}  // namespace

OptionTable tensorize_table() {
  OptionTable table("tensorize",
                    "make a dense checkpoint smaller: linear layers and tables into tensor trains, layer by layer");
  table.positional({.name = "MODEL", .help = "a Hugging Face folder, a GGUF, .safetensors or .onnx file"});
  table.add(goal_options())
      .add(choice_options())
      .add(grid_options())
      .add(form_options())
      .add(calibration_options())
      .add(refinement_options())
      .add({adapter_option()})
      .add(machine_options())
      .add({json_option()})
      .add(common_options());
  table.synonyms({"compress", "quantize", "quantise", "shrink", "prune", "decompose", "factorize", "factorise",
                  "tensorise", "convert", "svd"});
  table.common({"ratio", "budget", "tol", "calibrate", "form", "include", "exclude", "max-error", "dry-run", "output"});
  table.only_with({"bits=auto|2|3|4|8", "plan", "layer"}, {"sweeps"})
      .only_with({"bits=auto"}, {"corrections"})
      .only_with({"calibrate"}, {"calibrate-tokens", "calibrate-length", "text", "sequential", "clip-tokens",
                                 "refine-steps", "refine-lr", "chat", "data-format", "sweeps", "corrections"})
      .only_with({"refine=auto|always"}, {"refine-steps", "refine-lr"})
      .only_with({"bits=none", "layer"}, {"order", "gauge", "allow-slower"})
      .only_with({"form=tt|ttm", "calibrate", "layer"}, {"order"})  // form auto without text: low-rank pairs
      .only_with({"form=auto|tt|ttm", "layer"}, {"order"})
      .only_with({"ratio", "budget"}, {"uniform", "floor", "budget-of"});
  table.example("comera tensorize all-MiniLM-L6-v2 -o small --ratio 1.5")
      .example("comera tensorize model -o small --ratio 1.25,1.67,2.5 --exclude '*embeddings*'")
      .example("comera tensorize model --ratio 2 --dump-plan plan.json");
  return table;
}

namespace {

void make_plans(const OptionValues& values, const compress::Tensorizer& tensorizer) {
  if (values.has("dump-plan")) {
    if (tensorizer.sizes().size() > 1) fail_input("[tensorize] --dump-plan writes one plan; ask for one size");
    write_file_atomic(values.text("dump-plan"),
                      io::json_text(compress::plan_file(tensorizer.jobs(), 0, tensorizer.sizes()[0].ratio)));
  }
  print_plans(values, tensorizer);
}

// `finish` converts the written folders to the requested output.
int run_with(const OptionValues& values, compress::Tensorizer& tensorizer,
             const std::function<void(std::vector<compress::Result>&)>& finish) {
  if (only_plans(values)) return make_plans(values, tensorizer), 0;
  std::vector<compress::Result> results = tensorizer.run();
  finish(results);
  for (const compress::Result& result : results) write_reports(result);
  print_results(values, results);
  warn_of_tolerance(values, results);
  require_error(values, results);
  check_stop();  // a signal may have come while the cost was measured
  return 0;
}

// A folder of a known architecture must be a complete model. Other folders are compressed weight by weight.
void check_model(const std::string& model) {
  if (!models::has_known_type(io::ModelFolder(model))) return;
  try {
    engine::check_weights(model, *models::make_model(models::spec_from_folder(model), DType::f32));
  } catch (const InputError& error) {
    fail_input("{}, or give the .safetensors file with --include to compress weights by their names", error.what());
  }
}

int tensorize_folder(const OptionValues& values) {
  compress::Settings settings = compression_settings(values);
  check_output(values, settings.output);
  check_model(settings.model);
  require_own_vocabulary(settings.model);
  if (values.text("budget-of") == "onnx")
    settings.goal.counted = std::make_shared<exporting::ExportedOnnx>(settings.model);
  const OpenMachine open = open_machine(values);
  std::unique_ptr<compress::InputMoments> moments =
      open_calibration(values, open.machine, settings.model, settings.output);
  const std::string model = settings.model;
  compress::Tensorizer tensorizer(std::move(settings), *open.threads, std::move(moments));
  return run_with(values, tensorizer, [&](std::vector<compress::Result>& results) {
    // complete even if the measurement is stopped
    for (const compress::Result& result : results) write_reports(result);
    compress::measure_cost(open.machine, model, comparison_text(values), results);
  });
}

int tensorize_onnx(const OptionValues& values) {
  if (values.given("adapter")) fail_input("[tensorize] --adapter is for model folders; leave it out with an ONNX file");
  OnnxJob job(values, only_plans(values));
  compress::Settings settings = compression_settings(values);
  job.settle(settings);
  const OpenMachine open = open_machine(values);
  return job.run([&] {
    compress::Tensorizer tensorizer(std::move(settings), *open.threads, nullptr);
    return run_with(values, tensorizer, [&](std::vector<compress::Result>& results) { job.finish(results); });
  });
}

}  // namespace

int run_tensorize(const OptionValues& values) {
  catch_size_limit();
  if (only_plans(values)) refuse_options(values, {"max-error"}, "a plan has no errors, since no layer is made");
  return values.positionals()[0].ends_with(".onnx") ? tensorize_onnx(values) : tensorize_folder(values);
}

}  // namespace comera::tools
