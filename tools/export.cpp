#include "lib/export/export.h"

#include "lib/core/error.h"
#include "lib/core/log.h"
#include "lib/export/dense_folder.h"
#include "lib/report/json.h"
#include "lib/train/weights_file.h"
#include "tools/machine.h"
#include "tools/verbs.h"

namespace comera::tools {
namespace {

using exporting::Exported;
using exporting::ExportOptions;
using exporting::GraphForm;

ExportOptions options_of(const OptionValues& values) {
  ExportOptions options;
  const std::string& form = values.text("form");
  options.form = form == "tt" ? GraphForm::tt : form == "factors" ? GraphForm::factors : GraphForm::dense;
  options.dtype = values.text("dtype") == "fp16" ? exporting::WeightType::f16 : exporting::WeightType::f32;
  options.with_past = values.flag("with-past");
  options.opset = static_cast<int>(values.integer("opset"));
  return options;
}

report::Json json_of(const OptionValues& values, const Exported& exported) {
  report::Json json = report::document("export");
  json["model"] = values.positionals()[0];
  json["output"] = values.text("output");
  for (const char* name : {"form", "dtype"}) json[name] = values.text(name);
  json["opset"] = values.integer("opset");
  json["nodes"] = exported.nodes;
  json["bytes"] = exported.bytes;
  json["bytes_source"] = exported.bytes_source;
  json["files"] = exported.files;
  json["left_out"] = exported.left_out;
  if (!exported.difference) return json;
  json["largest_difference"] = exported.difference->largest;
  json["bound"] = exported.difference->bound;
  json["float_error"] = exported.difference->single_error;
  json["values_compared"] = exported.difference->values;
  return json;
}

void print(const OptionValues& values, const Exported& exported) {
  if (values.flag("json")) return print_out(report::dump(json_of(values, exported)) + "\n");
  for (const std::string& file : exported.left_out) log_info("left out {}: weights in another format", printable(file));
  print_out(fmt::format("{}  {} {} opset {}  {} nodes  {}, the source {}\n", values.text("output"), values.text("form"), values.text("dtype"),
                        values.integer("opset"), exported.nodes, format_bytes(exported.bytes), format_bytes(exported.bytes_source)));
  if (!exported.difference) return;
  print_out(fmt::format("largest difference from the model {:.3g} over {} values of up to {:.3g}; rounding explains {:.3g}\n",
                        exported.difference->largest, exported.difference->values, exported.difference->magnitude, exported.difference->bound));
}

// A graph that is larger than what it was made from surprises.
void hint_type(const OptionValues& values, const std::string& model) {
  if (values.given("dtype")) return;
  const DType stored = train::stored_types(model).others;
  if (stored == DType::f32) return;
  log_info("the weights are {} here and become fp32 in the graph; --dtype fp16 halves the file", stored == DType::f16 ? "fp16" : "bf16");
}

std::unique_ptr<train::Engine> open_engine(const plan::Machine& machine, const io::ModelFolder& folder, const models::ModelSpec& spec) {
  auto engine = std::make_unique<train::Engine>(machine, models::factory_of(spec, machine.dtype),
                                                train::EngineOptions{.optimizer = {}, .training = false, .fetch_hidden = true});
  const auto block = io::parse_comera_block(folder.config(), folder.config_path());
  if (block && block->threshold) engine->model().set_threshold(*block->threshold);
  engine->allocate();
  train::load_weights(folder.path(), engine->weights());
  engine->weights_changed();
  return engine;
}

void refuse_onnx_words(const OptionValues& values) {
  if (values.given("form") && values.text("form") != "dense")
    fail_input("[export] --to safetensors writes dense weights; use --form dense, or copy {} itself to keep its {}", values.positionals()[0],
               values.text("form"));
  for (const char* name : {"opset", "dtype", "with-past"})
    if (values.given(name)) fail_input("[export] --{} belongs to ONNX; leave it out with --to safetensors", name);
}

int export_dense(const OptionValues& values, const io::ModelFolder& folder, const exporting::Target& target) {
  refuse_onnx_words(values);
  if (target.is_file()) fail_input("[export] {}: --to safetensors writes a folder; use a name without .onnx", target.path);
  const bool dry = values.flag("dry-run");
  if (!dry) exporting::check_target(target, folder.path());
  const exporting::DenseFolder dense = dry ? exporting::plan_dense_folder(folder) : exporting::write_dense_folder(folder, target.path);
  if (values.flag("json")) {
    report::Json json = report::document("export");
    json["model"] = folder.path();
    json["output"] = target.path;
    json["bytes"] = dense.bytes;
    json["bytes_source"] = dense.bytes_source;
    json["chains"] = dense.chains;
    json["left_out"] = dense.left_out;
    print_out(report::dump(json) + "\n");
    return 0;
  }
  print_out(fmt::format("{}  dense safetensors  {} weights multiplied out  {}, the source {}\n", target.path, dense.chains, format_bytes(dense.bytes),
                        format_bytes(dense.bytes_source)));
  return 0;
}

}  // namespace

OptionTable export_table() {
  OptionTable table("export", "write a model for other programs: ONNX of standard operators, checked against the model");
  table.positional({.name = "MODEL", .help = "a run folder or a model folder"});
  table.add(
      {{.name = "output",
        .type = OptionType::path,
        .group = "Output",
        .help = "a folder, or a file that ends in .onnx",
        .metavar = "PATH",
        .short_name = 'o',
        .in_config = false},
       {.name = "form",
        .type = OptionType::choice,
        .default_text = "tt",
        .group = "Output",
        .help = "tt: cores that the runtime merges when it loads; factors: two halves; dense: multiplied out",
        .choices = {"tt", "factors", "dense"}},
       {.name = "opset",
        .type = OptionType::integer,
        .default_text = std::to_string(exporting::default_opset),
        .group = "Output",
        .help = "version of the standard operators, 13 to 21"},
       {.name = "dtype",
        .type = OptionType::choice,
        .default_text = "fp32",
        .group = "Output",
        .help = "how weights are stored; inputs, outputs and arithmetic are the same in both",
        .choices = {"fp32", "fp16"}},
       {.name = "with-past",
        .type = OptionType::flag,
        .group = "Output",
        .help = "decoders: keys and values of earlier tokens go in and come out, for generating token by token"},
       {.name = "to",
        .type = OptionType::choice,
        .default_text = "onnx",
        .group = "Output",
        .help = "safetensors: a plain Hugging Face folder, every weight dense and in the type that it has here (--form dense)",
        .choices = {"onnx", "safetensors"}},
       {.name = "force", .type = OptionType::flag, .group = "Output", .help = "replace what is there", .in_config = false},
       {.name = "dry-run", .type = OptionType::flag, .group = "Output", .help = "say how large it becomes and write nothing", .in_config = false},
       json_option()});
  table.add(machine_options()).add(common_options());
  return table.example("comera export run -o run-onnx").example("comera export run -o run.onnx --form factors --dtype fp16");
}

int run_export(const OptionValues& values) {
  if (!values.has("output")) fail_input("[export] -o is missing: name a folder, or a file that ends in .onnx");
  const exporting::Target target{values.text("output"), values.flag("force")};
  const io::ModelFolder folder(values.positionals()[0]);
  if (values.text("to") == "safetensors") return export_dense(values, folder, target);
  const ExportOptions options = options_of(values);
  if (!folder.has_config()) fail_input("[export] {}: has no config.json; name a run folder or a model folder", folder.path());
  const models::ModelSpec spec = models::spec_from_folder(folder.path());
  hint_type(values, folder.path());
  if (values.flag("dry-run")) {
    print(values, exporting::plan_onnx(folder, spec, options));
    return 0;
  }
  exporting::check_target(target, folder.path());
  const OpenMachine open = open_machine(values);
  const auto engine = open_engine(open.machine, folder, spec);
  print(values, exporting::export_onnx(folder, spec, options, target, *engine));
  return 0;
}

}  // namespace comera::tools
