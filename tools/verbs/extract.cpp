// `comera extract`.
#include "lib/compress/extract.h"

#include <fmt/core.h>

#include <cmath>

#include "lib/core/error.h"
#include "lib/core/files/file.h"
#include "lib/core/join.h"
#include "lib/core/terminal/log.h"
#include "lib/core/units.h"
#include "lib/io/file_kind.h"
#include "lib/report/output/fit.h"
#include "lib/report/output/json.h"
#include "lib/tt/parallel.h"
#include "tools/machine.h"
#include "tools/verbs.h"

namespace comera::tools {
namespace {

using compress::Extracted;
using compress::ExtractedLayer;

compress::ExtractSettings settings_of(const OptionValues& values) {
  compress::ExtractSettings settings;
  settings.base = values.positionals()[0];
  settings.tuned = values.positionals()[1];
  if (values.has("rank") == values.has("tol")) fail_input("[extract] give one of --rank and --tol");
  if (values.has("rank")) settings.rank = values.integer("rank");
  if (values.has("tol")) settings.tolerance = values.real("tol");
  settings.type = values.text("dtype") == "fp16" ? io::StoredType::F16 : io::StoredType::F32;
  settings.writes = !values.flag("dry-run");
  if (values.has("output")) settings.output = values.text("output");
  if (settings.writes && settings.output.empty()) fail_input("[extract] -o is missing: name a folder for the adapter");
  if (settings.writes && path_exists(settings.output) && !is_empty_folder(settings.output))
    fail_input("[extract] {}: exists already; use another name", settings.output);
  for (const std::string& folder : values.positionals()) io::require_model_folder("[extract]", folder);
  return settings;
}

report::Table table_of(const Extracted& extracted) {
  using report::Unit;
  report::Table table{.columns = {{"name", "weight"},
                                  {"shape", "shape", Unit::sizes},
                                  {"rank", "rank", Unit::count},
                                  {"parameters", "parameters", Unit::count},
                                  {"change", "change", Unit::error},
                                  {"rel_error", "rel_error", Unit::error}}};
  for (const ExtractedLayer& layer : extracted.layers)
    table.rows.push_back({layer.name, std::vector<std::int64_t>(layer.shape), layer.rank, layer.parameters(),
                          layer.change, layer.rel_error ? report::Cell(*layer.rel_error) : report::Cell()});
  return table;
}

report::Json json_of(const OptionValues& values, const Extracted& extracted) {
  report::Json json = report::document("extract");
  json["base"] = values.positionals()[0];
  json["tuned"] = values.positionals()[1];
  json["output"] = values.has("output") ? report::Json(values.text("output")) : report::Json();
  json["bytes"] = extracted.bytes;
  json["equal"] = extracted.equal;
  json["others"] = extracted.others;
  json["layers"] = report::to_json(table_of(extracted));
  return json;
}

void warn_others(const std::vector<std::string>& others) {
  constexpr std::size_t most = 8;
  if (others.empty()) return;
  const std::vector<std::string> first(others.begin(),
                                       others.begin() + static_cast<long>(std::min(most, others.size())));
  log_warning("[extract] {} tensors differ that are no linear weights, and the adapter does not hold them: {}{}",
              others.size(), printable(join(first, ", ")), others.size() > most ? ", ..." : "");
}

}  // namespace

OptionTable extract_table() {
  OptionTable table("extract",
                    "write the difference of two dense models as a LoRA adapter of PEFT; --adapter of other verbs "
                    "merges it again");
  table.positional({.name = "MODELS",
                    .help = "BASE and TUNED: two model folders or GGUF files of one architecture and size",
                    .minimum = 2,
                    .maximum = 2});
  table.add({{.name = "output",
              .type = OptionType::path,
              .group = "Output",
              .help = "a new folder for adapter_config.json and adapter_model.safetensors",
              .metavar = "DIR",
              .short_name = 'o',
              .in_config = false,
              .files = FileUse::written},
             {.name = "rank",
              .type = OptionType::integer,
              .group = "Size",
              .help = "rank of every weight; a weight with a smaller side gets that",
              .minimum = 1},
             {.name = "tol",
              .type = OptionType::real,
              .group = "Size",
              .help = "largest rel_error of a weight of TUNED; every weight gets the smallest rank that reaches it",
              .minimum = 0,
              .synonyms = {"tolerance", "rel-error"}},
             {.name = "dtype",
              .type = OptionType::choice,
              .default_text = "fp32",
              .group = "Output",
              .help = "element type of the factors",
              .choices = {"fp32", "fp16"}},
             {.name = "dry-run",
              .type = OptionType::flag,
              .group = "Output",
              .help = "print which weights differ, ranks and bytes, and write nothing",
              .in_config = false},
             json_option()});
  table.add(machine_options()).add(common_options()).synonyms({"lora", "diff", "difference", "adapter"});
  table.common({"output", "rank", "tol", "dry-run", "json"});
  return table.example("comera extract base tuned -o adapter --rank 16")
      .example("comera extract base tuned -o adapter --tol 0.01");
}

int run_extract(const OptionValues& values) {
  const compress::ExtractSettings settings = settings_of(values);
  const OpenMachine open = open_machine(values);
  const tt::UsePool use(*open.threads);
  const Extracted extracted = compress::extract(settings);
  warn_others(extracted.others);
  if (extracted.bytes == 0 || extracted.layers.empty())
    fail_input("[extract] {} and {}: no linear weight differs{}, so there is no adapter to write", settings.base,
               settings.tuned, extracted.layers.empty() ? "" : " by more than --tol");
  const report::Json json = json_of(values, extracted);
  if (settings.writes) write_file_atomic(join_path(settings.output, "report.json"), report::dump(json) + "\n");
  if (values.flag("json")) {
    print_out(report::dump(json) + "\n");
    return 0;
  }
  print_out(report::render_for_stdout(table_of(extracted)));
  print_out(report::wrap_for_stdout(
      fmt::format("{}  {} weights  {}; {} tensors are equal\n", settings.writes ? settings.output : "the adapter",
                  extracted.layers.size(), format_bytes(extracted.bytes), extracted.equal)));
  return 0;
}

}  // namespace comera::tools
