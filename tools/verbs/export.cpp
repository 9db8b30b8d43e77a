// `comera export`.
#include "lib/export/export.h"

#include <fmt/core.h>

#include "lib/core/error.h"
#include "lib/core/files/file.h"
#include "lib/core/join.h"
#include "lib/core/memory.h"
#include "lib/core/reals.h"
#include "lib/core/terminal/log.h"
#include "lib/engine/weights_file.h"
#include "lib/export/peft_folder.h"
#include "lib/report/output/fit.h"
#include "lib/report/output/json.h"
#include "tools/export_gguf.h"
#include "tools/export_needs.h"
#include "tools/machine.h"
#include "tools/stored_model.h"
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
  const std::string& grids = values.text("quantized");
  if (grids == "none") return options;
  if (options.form == GraphForm::dense)
    fail_input("[export] --form dense multiplies every weight out; leave it or --quantized {} out", grids);
  options.grids = grids == "qdq" ? exporting::GridForm::qdq : exporting::GridForm::nbits;
  if (!values.given("opset")) options.opset = exporting::newest_opset;
  const int oldest = grids == "qdq" ? 21 : 18;  // blocks of DequantizeLinear; BitwiseAnd for look-ups
  if (options.opset < oldest) fail_input("[export] --quantized {} needs --opset {} or newer", grids, oldest);
  return options;
}

void add_difference(report::Json& json, const exporting::Difference& difference) {
  json["largest_difference"] = difference.largest;
  json["bound"] = difference.bound;
  json["float_error"] = difference.single_error;
  json["values_compared"] = difference.values;
}

void print_difference(const exporting::Difference& difference) {
  print_out(report::wrap_for_stdout(
      fmt::format("largest difference from the model {} over {} values of up to {}; rounding explains {}\n",
                  format_digits(difference.largest, 3), difference.values, format_digits(difference.magnitude, 3),
                  format_digits(difference.bound, 3))));
}

report::Json json_of(const OptionValues& values, const Exported& exported) {
  report::Json json = report::document("export");
  json["model"] = values.positionals()[0];
  json["output"] = values.text("output");
  for (const char* name : {"form", "dtype", "quantized"}) json[name] = values.text(name);
  json["opset"] = options_of(values).opset;
  json["nodes"] = exported.nodes;
  json["bytes"] = exported.bytes;
  json["bytes_source"] = exported.bytes_source;
  json["files"] = exported.files;
  json["left_out"] = exported.left_out;
  json["widened"] = exported.others.widened;
  json["floating"] = exported.others.floating;
  json["dense"] = exported.others.dense;
  if (exported.difference) add_difference(json, *exported.difference);
  return json;
}

// The weights that the graph has in another form than the folder, without those that hint_grids() tells and those of
// --form dense.
void tell_others(const OptionValues& values, const models::Spec& spec, const exporting::OtherForms& others) {
  const bool told = values.text("quantized") == "none";
  const std::vector<std::string> widened(others.widened.begin(), others.widened.end());
  const std::vector<std::string> floating(others.floating.begin(), others.floating.end());
  std::vector<std::string> dense(others.dense.begin(), others.dense.end());
  if (told) std::erase_if(dense, [&](const std::string& name) { return spec.on_grids.contains(name); });
  if (!widened.empty())
    log_info("{}: 2 and 3 bits become 4 with the same numbers, because the graph has no such grid", some_of(widened));
  if (!floating.empty())
    log_info("{}: cores on a grid become floating-point numbers, because the graph has no such cores",
             some_of(floating));
  if (!dense.empty() && values.text("form") != "dense")
    log_info("{}: dense in the graph, because it has no smaller form for it", some_of(dense));
}

void print(const OptionValues& values, const models::Spec& spec, const Exported& exported) {
  if (values.flag("json")) return print_out(report::dump(json_of(values, exported)) + "\n");
  tell_others(values, spec, exported.others);
  for (const std::string& file : exported.left_out) log_info("left out {}: weights in another format", printable(file));
  print_out(report::wrap_for_stdout(fmt::format("{}  {} {} opset {}  {} nodes  {}, the source {}\n",
                                                values.text("output"), values.text("form"), values.text("dtype"),
                                                options_of(values).opset, exported.nodes, format_bytes(exported.bytes),
                                                format_bytes(exported.bytes_source))));
  if (exported.difference) print_difference(*exported.difference);
}

// Suggests --dtype if the fp32 graph is larger than the stored weights.
void hint_type(const OptionValues& values, const std::string& model) {
  if (values.given("dtype")) return;
  const DType stored = engine::stored_types(model).others;
  if (stored == DType::f32) return;
  log_info("the weights are {} here and become fp32 in the graph; --dtype fp16 halves the file",
           stored == DType::f16 ? "fp16" : "bf16");
}

void hint_grids(const ExportOptions& options, const models::Spec& spec, const std::string& model) {
  if (options.grids != exporting::GridForm::dense && spec.on_grids.empty())
    fail_input("[export] {}: has no weights on grids, which --quantized writes; make them: comera tensorize --bits 4",
               model);
  std::vector<std::string> names;
  for (const auto& [name, form] : spec.on_grids) names.push_back(name);
  if (options.grids == exporting::GridForm::dense && !names.empty())
    log_info("{} weights on grids become dense in the graph; --quantized qdq keeps them small: {}", names.size(),
             some_of(names));
}

std::unique_ptr<engine::Engine> open_engine(const plan::Machine& machine, const io::ModelFolder& folder,
                                            const models::ModelSpec& spec) {
  auto engine = std::make_unique<engine::Engine>(machine, models::factory_of(spec, machine.dtype),
                                                 engine::EngineOptions{.fetch_hidden = true});
  engine::check_weights(folder.path(), engine->model());  // before memory is allocated for the sizes in config.json
  engine->allocate();
  engine::load_weights(folder.path(), engine->weights(), {.fresh = {}, .may_miss = {}, .adapter = folder.adapter()});
  engine->weights_changed();
  return engine;
}

// The model with its chains, for the comparison with its dense form. If comera cannot run it, `reason` is the cause.
struct Runnable {
  std::optional<models::ModelSpec> spec;
  std::string reason;
};

Runnable runnable_model(const io::ModelFolder& folder) {
  if (!models::has_known_type(folder)) return {{}, "comera does not run models of this architecture"};
  try {
    models::ModelSpec spec = models::spec_from_folder(folder.path());
    // Dense weights once in double and once in float.
    const double bytes = 12.0 * static_cast<double>(models::make_model(spec, DType::f32)->parameters_dense());
    if (bytes > 0.7 * static_cast<double>(machine_memory()))
      return {{}, fmt::format("that takes {} of memory", format_bytes(static_cast<std::uint64_t>(bytes)))};
    return {std::move(spec), ""};
  } catch (const InputError& error) {
    return {{}, error.what()};
  }
}

void print_dense(const OptionValues& values, const std::string& source, const exporting::DenseFolder& dense,
                 const std::optional<exporting::Difference>& difference) {
  if (values.flag("json")) {
    report::Json json = report::document("export");
    json["model"] = source;
    json["output"] = values.text("output");
    json["bytes"] = dense.bytes;
    json["bytes_source"] = dense.bytes_source;
    json["chains"] = dense.chains.size();
    json["dense"] = dense.chains;
    json["left_out"] = dense.left_out;
    if (difference) add_difference(json, *difference);
    return print_out(report::dump(json) + "\n");
  }
  if (!dense.chains.empty()) log_info("{}: dense in the folder, as all weights are", some_of(dense.chains));
  print_out(report::wrap_for_stdout(fmt::format("{}  dense safetensors  {} weights multiplied out  {}, the source {}\n",
                                                values.text("output"), dense.chains.size(), format_bytes(dense.bytes),
                                                format_bytes(dense.bytes_source))));
  if (difference) print_difference(*difference);
}

// Compares a written folder, with its adapter if it has one, with the model that it was made from. An empty function if
// comera cannot run the model.
exporting::CheckFolder check_of(const OptionValues& values, const io::ModelFolder& folder, const std::string& output,
                                const char* adapter, std::optional<exporting::Difference>& difference) {
  const Runnable model = runnable_model(folder);
  if (!model.spec) {
    log_warning("[export] the dense weights are not compared with the model: {}", model.reason);
    return {};
  }
  return [&, output, adapter, spec = *model.spec](const std::string& made) {
    const OpenMachine open = open_machine(values);
    const auto engine = open_engine(open.machine, folder, spec);
    difference = exporting::check_dense_folder(made, output, folder, spec, *engine,
                                               *adapter == '\0' ? "" : join_path(made, adapter));
  };
}

int export_dense(const OptionValues& values, const io::ModelFolder& folder, const exporting::Target& target) {
  refuse_onnx_words(values, target);
  std::optional<exporting::Difference> difference;
  const exporting::DenseFolder planned = exporting::plan_dense_folder(folder);
  if (!values.flag("dry-run")) exporting::check_target(target, folder.path());
  settle_needs(values, target, {planned.bytes, memory_of_largest(folder)});
  if (values.flag("dry-run")) {
    print_dense(values, folder.path(), planned, difference);
    return 0;
  }
  exporting::CheckFolder check;
  if (!planned.chains.empty()) check = check_of(values, folder, target.path, "", difference);
  const exporting::DenseFolder dense = exporting::write_dense_folder(folder, target, check);
  print_dense(values, folder.path(), dense, difference);
  return 0;
}

void print_peft(const OptionValues& values, const exporting::PeftFolder& made,
                const std::optional<exporting::Difference>& difference) {
  const std::string adapter = join_path(values.text("output"), exporting::adapter_folder);
  if (values.flag("json")) {
    report::Json json = report::document("export");
    json["model"] = values.positionals()[0];
    json["output"] = values.text("output");
    json["adapter"] = adapter;
    json["bytes"] = made.base.bytes;
    json["bytes_adapter"] = made.bytes_adapter;
    json["bytes_source"] = made.base.bytes_source;
    json["corrections"] = made.corrections;
    json["merged"] = made.merged;
    json["dense"] = made.base.chains;
    json["left_out"] = made.base.left_out;
    if (difference) add_difference(json, *difference);
    return print_out(report::dump(json) + "\n");
  }
  if (!made.merged.empty()) log_info("{}: tables with their corrections are in the base", join(made.merged, ", "));
  print_out(report::wrap_for_stdout(
      fmt::format("{}  dense safetensors  {}, the source {}\n{}  {} corrections of rank {} and less  {}\n",
                  values.text("output"), format_bytes(made.base.bytes), format_bytes(made.base.bytes_source), adapter,
                  made.corrections, made.largest_rank, format_bytes(made.bytes_adapter))));
  if (difference) print_difference(*difference);
}

int export_peft(const OptionValues& values, const io::ModelFolder& folder, const exporting::Target& target) {
  refuse_onnx_words(values, target);
  std::optional<exporting::Difference> difference;
  const exporting::PeftFolder planned = exporting::plan_peft_folder(folder);  // refuses a model without corrections
  if (!values.flag("dry-run")) exporting::check_target(target, folder.path());
  settle_needs(values, target, {planned.base.bytes + planned.bytes_adapter, memory_of_largest(folder)});
  if (values.flag("dry-run")) {
    print_peft(values, planned, difference);
    return 0;
  }
  const auto check = check_of(values, folder, target.path, exporting::adapter_folder, difference);
  print_peft(values, exporting::write_peft_folder(folder, target, check), difference);
  return 0;
}

// The graph is built in memory, and the largest weight beside it. Some graphs are built for a plan too.
Exported settle_onnx_needs(const OptionValues& values, const exporting::Target& target, const io::ModelFolder& folder,
                           const models::ModelSpec& spec, const ExportOptions& options) {
  if (!exporting::plans_by_shapes(options)) {
    const std::uint64_t least = least_bytes(folder, options.form);
    settle_needs(values, target, {.bytes = least, .memory = static_cast<double>(least), .least = true});
    return values.flag("dry-run") ? exporting::plan_onnx(folder, spec, options) : Exported();
  }
  Exported planned = exporting::plan_onnx(folder, spec, options);
  const double largest = options.form == GraphForm::dense ? memory_of_largest(folder) : 0;
  settle_needs(values, target, {planned.bytes, static_cast<double>(planned.bytes) + largest});
  return planned;
}

std::vector<Option> graph_options() {
  return {
      {.name = "form",
       .type = OptionType::choice,
       .default_text = "tt",
       .group = "Output",
       .help = "tt: cores that the runtime merges when it loads the graph; factors: left and right factor; dense: "
               "multiplied out",
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
       .help = "element type of the stored weights; inputs, outputs and arithmetic are the same in both",
       .choices = {"fp32", "fp16"}},
      {.name = "quantized",
       .type = OptionType::choice,
       .default_text = "none",
       .group = "Output",
       .help = "weights on grids in the graph: none: dense; qdq: blocks of DequantizeLinear (opset 21); nbits: "
               "MatMulNBits of ONNX Runtime",
       .choices = {"none", "qdq", "nbits"}},
      {.name = "with-past",
       .type = OptionType::flag,
       .group = "Output",
       .help =
           "decoders: add inputs and outputs for the keys and values of earlier tokens, to generate token by token"}};
}

}  // namespace

OptionTable export_table() {
  OptionTable table("export",
                    "write a model for other programs: ONNX of standard operators, a dense folder, or GGUF; what is "
                    "written is checked against the model");
  table.positional({.name = "MODEL", .help = "a run folder, a model folder, or a GGUF file"});
  table.add(
      {{.name = "output",
        .type = OptionType::path,
        .group = "Output",
        .help = "a folder, or a file that ends in .onnx or .gguf",
        .metavar = "PATH",
        .short_name = 'o',
        .in_config = false,
        .files = FileUse::written},
       {.name = "to",
        .type = OptionType::choice,
        .default_text = "onnx",
        .group = "Output",
        .help =
            "safetensors: a plain Hugging Face folder, every weight dense and in its stored type (--form dense); "
            "peft: the same without the low-rank corrections of weights on grids, and these as a LoRA adapter of PEFT "
            "in its sub-folder adapter; "
            "gguf: a file for llama.cpp, in which weights on grids stay as they are",
        .choices = {"onnx", "safetensors", "peft", "gguf"},
        .synonyms = {"format", "target"}},
       {.name = "force",
        .type = OptionType::flag,
        .group = "Output",
        .help = "replace an existing output",
        .in_config = false},
       {.name = "dry-run",
        .type = OptionType::flag,
        .group = "Output",
        .help = "print the size of the output and write nothing",
        .in_config = false},
       json_option()});
  table.add(graph_options())
      .add({adapter_option()})
      .add(machine_options())
      .add(common_options())
      .synonyms({"save", "onnx", "to-onnx"});
  table.common({"output", "to", "form", "dtype", "opset", "quantized", "with-past", "force", "dry-run", "json"});
  return table.example("comera export run -o run-onnx")
      .example("comera export run -o run.onnx --form factors --dtype fp16")
      .example("comera export four-bits -o model.gguf")
      .example("comera export four-bits -o base --to peft");
}

int run_export(const OptionValues& values) {
  if (!values.has("output")) fail_input("[export] -o is missing: name a folder, or a file that ends in .onnx or .gguf");
  const exporting::Target target{values.text("output"), values.flag("force")};
  const io::ModelFolder folder(values.positionals()[0], adapter_of(values));
  require_own_vocabulary(folder.path());
  if (values.text("to") == "safetensors")
    return folder.is_gguf() ? export_from_gguf(values, folder, target) : export_dense(values, folder, target);
  if (values.text("to") == "peft") return export_peft(values, folder, target);
  if (values.text("to") == "gguf" || (target.is_gguf() && !values.given("to")))
    return export_to_gguf(values, folder, target);
  if (target.is_gguf()) fail_input("[export] {}: an ONNX file ends in .onnx", target.path);
  const ExportOptions options = options_of(values);
  io::require_config("[export]", folder);
  const models::ModelSpec spec = models::spec_from_folder(folder.path());
  hint_type(values, folder.path());
  hint_grids(options, models::common(spec), folder.path());
  if (!values.flag("dry-run")) exporting::check_target(target, folder.path());
  const Exported planned = settle_onnx_needs(values, target, folder, spec, options);
  if (values.flag("dry-run")) {
    print(values, models::common(spec), planned);
    return 0;
  }
  const OpenMachine open = open_machine(values);
  const auto engine = open_engine(open.machine, folder, spec);
  print(values, models::common(spec), exporting::export_onnx(folder, spec, options, target, *engine));
  return 0;
}

}  // namespace comera::tools
