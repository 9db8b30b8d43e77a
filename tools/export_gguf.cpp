#include "tools/export_gguf.h"

#include <algorithm>

#include "lib/core/error.h"
#include "lib/core/terminal/log.h"
#include "lib/engine/unused_tensors.h"
#include "lib/export/dense_folder.h"
#include "lib/export/gguf/gguf_file.h"
#include "lib/io/gguf/gguf.h"
#include "lib/report/output/fit.h"
#include "lib/report/output/json.h"
#include "models/architecture.h"
#include "tools/export_needs.h"
#include "tools/program.h"

namespace comera::tools {
namespace {

report::Json document(const OptionValues& values) {
  report::Json json = report::document("export");
  json["model"] = values.positionals()[0];
  json["output"] = values.text("output");
  return json;
}

std::vector<std::string> quantised_in(const io::GgufFile& file) {
  std::vector<std::string> names;
  for (const io::GgufTensor& tensor : file.tensors())
    if (io::is_quantised(tensor.type)) names.push_back(tensor.name);
  return names;
}

void print_folder(const OptionValues& values, const exporting::DenseFolder& made) {
  const io::GgufFile file(values.positionals()[0]);
  const std::vector<std::string> quantised = quantised_in(file);
  if (values.flag("json")) {
    report::Json json = document(values);
    json["bytes"] = made.bytes;
    json["bytes_source"] = file.bytes();
    json["quantised"] = quantised.size();
    json["dense"] = quantised;
    if (!values.flag("dry-run"))
      json["tokenizer"] = std::find(made.copied.begin(), made.copied.end(), "tokenizer.json") != made.copied.end();
    return print_out(report::dump(json) + "\n");
  }
  print_out(report::wrap_for_stdout(fmt::format("{}  safetensors  {} quantised tensors in fp32  {}, the source {}\n",
                                                values.text("output"), quantised.size(), format_bytes(made.bytes),
                                                format_bytes(file.bytes()))));
}

void print_file(const OptionValues& values, const exporting::GgufWrote& wrote) {
  if (!wrote.without_tokenizer.empty())
    log_warning("[export] the file has no tokenizer, and llama.cpp takes ids alone: {}", wrote.without_tokenizer);
  if (values.flag("json")) {
    report::Json json = document(values);
    json["bytes"] = wrote.bytes;
    json["bytes_source"] = wrote.bytes_source;
    json["tensors"] = wrote.tensors;
    json["on_grids"] = wrote.on_grids;
    json["adapter"] = wrote.adapter.empty() ? report::Json() : report::Json(wrote.adapter);
    json["bytes_adapter"] = wrote.bytes_adapter;
    json["widened"] = wrote.widened;
    json["dense"] = wrote.dense;
    json["unused"] = wrote.unused;
    json["tokenizer"] = wrote.without_tokenizer.empty();
    return print_out(report::dump(json) + "\n");
  }
  if (!wrote.widened.empty())
    log_info("{}: stored as Q4_0 with the same numbers, because GGUF has neither 2 and 3 bits nor groups above 32",
             some_of(wrote.widened));
  if (!wrote.dense.empty()) log_info("{}: dense in the file, because GGUF has no form for it", some_of(wrote.dense));
  std::string line =
      fmt::format("{}  GGUF  {} of {} tensors in blocks  {}, the source {}\n", values.text("output"), wrote.on_grids,
                  wrote.tensors, format_bytes(wrote.bytes), format_bytes(wrote.bytes_source));
  if (!wrote.adapter.empty())
    line += fmt::format("{}  its low-rank corrections, {}; run both: llama-cli -m {} --lora {}\n", wrote.adapter,
                        format_bytes(wrote.bytes_adapter), values.text("output"), wrote.adapter);
  print_out(report::wrap_for_stdout(line));
}

}  // namespace

std::string some_of(const std::vector<std::string>& names) {
  const std::string first = printable(names.front());
  return names.size() == 1 ? first : fmt::format("{} and {} more", first, names.size() - 1);
}

void refuse_onnx_words(const OptionValues& values, const exporting::Target& target) {
  const std::string& to = values.text("to");
  if (values.given("form") && values.text("form") != "dense")
    fail_input("[export] --to {} writes dense weights; use --form dense, or copy {} itself to keep its {}", to,
               values.positionals()[0], values.text("form"));
  for (const char* name : {"opset", "dtype", "quantized", "with-past"})
    if (values.given(name)) fail_input("[export] --{} belongs to ONNX; leave it out with --to {}", name, to);
  if (target.is_file())
    fail_input("[export] {}: --to {} writes a folder; use a name without {}", target.path, to,
               target.is_onnx() ? ".onnx" : ".gguf");
}

int export_from_gguf(const OptionValues& values, const io::ModelFolder& folder, const exporting::Target& target) {
  refuse_onnx_words(values, target);
  const exporting::DenseFolder planned = exporting::plan_dense_folder(folder);
  if (!values.flag("dry-run")) exporting::check_target(target);
  settle_needs(values, target, {planned.bytes, memory_of_largest(folder)});
  if (values.flag("dry-run")) {
    print_folder(values, planned);
    return 0;
  }
  print_folder(values, exporting::write_dense_folder(folder, target));
  return 0;
}

int export_to_gguf(const OptionValues& values, const io::ModelFolder& folder, const exporting::Target& target) {
  for (const char* name : {"opset", "quantized", "with-past"})
    if (values.given(name)) fail_input("[export] --{} belongs to ONNX; leave it out with --to gguf", name);
  if (values.text("form") == "factors")
    fail_input("[export] --form factors belongs to ONNX; with --to gguf use dense, or leave it out");
  if (!target.is_gguf()) fail_input("[export] {}: --to gguf writes a file; its name must end in .gguf", target.path);
  io::require_config("[export]", folder);
  const models::ModelSpec spec = models::spec_from_folder(folder.path());
  const auto* decoder = std::get_if<models::DecoderSpec>(&spec);
  if (!decoder)
    fail_input("[export] {}: is {}; --to gguf writes llama decoders; use --to {}", folder.path(), models::kind_of(spec),
               std::holds_alternative<models::DlrmSpec>(spec) ? "safetensors" : "onnx or safetensors");
  const exporting::GgufOptions options{.merged = values.text("form") == "dense",
                                       .half = values.text("dtype") == "fp16"};
  const exporting::GgufWrote planned = exporting::plan_gguf_file(folder, *decoder, options, target);
  engine::warn_of_unused(folder.path(), planned.unused);
  if (!values.flag("dry-run")) {
    exporting::check_target(target);
    if (!planned.adapter.empty()) exporting::check_target({planned.adapter, target.force});
  }
  settle_needs(values, target, {planned.bytes + planned.bytes_adapter, memory_of_largest(folder)});
  if (values.flag("dry-run")) {
    print_file(values, planned);
    return 0;
  }
  print_file(values, exporting::write_gguf_file(folder, *decoder, options, target));
  return 0;
}

}  // namespace comera::tools
