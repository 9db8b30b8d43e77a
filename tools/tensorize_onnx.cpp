#include "tools/tensorize_onnx.h"

#include "lib/core/error.h"
#include "lib/core/file.h"
#include "lib/core/log.h"
#include "lib/core/units.h"
#include "lib/export/onnx_rewrite.h"

namespace comera::tools {
namespace {

void refuse_what_needs_a_model(const OptionValues& values) {
  for (const char* name : {"calibrate", "plan", "dump-plan"})
    if (values.has(name)) fail_input("[tensorize] --{} needs a model folder; an ONNX graph is tensorized weight by weight, leave it out", name);
  if (values.list("ratio").size() > 1) fail_input("[tensorize] an ONNX graph takes one --ratio at a time; {} came", values.list("ratio").size());
  const std::string output = values.has("output") ? values.text("output") : "";
  if (values.flag("dry-run")) return;
  if (!output.ends_with(".onnx")) fail_input("[tensorize] --output '{}': an ONNX graph becomes one; name a file that ends in .onnx", output);
  if (path_exists(output)) fail_input("[tensorize] {}: exists already; name another file, or remove it first", output);
}

}  // namespace

int tensorize_onnx(const OptionValues& given, int (*tensorize)(const OptionValues&)) {
  refuse_what_needs_a_model(given);
  OptionValues values = given;
  const std::string source = values.positionals()[0], output = values.has("output") ? values.text("output") : source + ".small.onnx";
  const AtomicFolder making(output + ".made");
  const std::string dense = join_path(making.temporary(), "dense"), chains = join_path(making.temporary(), "chains");
  exporting::extract_onnx_weights(source, dense);
  values.set_positionals({dense});
  values.set("output", chains);
  if (!values.given("include")) values.set("include", "*");  // every candidate; the folder says nothing of an architecture
  const int code = tensorize(values);
  if (code != 0 || values.flag("dry-run")) return code;
  const std::string made = join_path(making.temporary(), base_name(output));
  const exporting::RewrittenOnnx written = exporting::rewrite_onnx(source, chains, made, exporting::GraphForm::tt);
  if (path_exists(made + ".data")) rename_path(made + ".data", output + ".data");
  rename_path(made, output);
  if (path_exists(join_path(chains, "report.json"))) rename_path(join_path(chains, "report.json"), output + ".report.json");
  log_info("{}: {} weights became chains; {}, {} before", output, written.weights, format_bytes(written.bytes), format_bytes(written.bytes_source));
  return 0;
}

}  // namespace comera::tools
