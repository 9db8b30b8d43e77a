#include "tools/against.h"

#include <cmath>

#include "lib/compress/check/comparison.h"
#include "lib/core/error.h"
#include "lib/io/file_kind.h"
#include "lib/report/output/fit.h"
#include "lib/report/weights/comparison.h"
#include "tools/machine.h"
#include "tools/program.h"
#include "tools/stored_model.h"

namespace comera::tools {

std::vector<Option> against_options() {
  return {{.name = "against",
           .type = OptionType::path,
           .group = "Comparison",
           .help = "another model with the same tokenizer; compares its answers with MODEL's by cosine, KL and "
                   "perplexity, on the lines or rows of --data or else on a built-in sample",
           .metavar = "MODEL"}};
}

int evaluate_against(const OptionValues& values) {
  for (const char* name : {"label", "stride", "predictions"})
    if (values.given(name)) fail_input("[evaluate] --{}: --against reads only texts; leave it out", name);
  refuse_options(values,
                 {"task", "dtype", "chat", "case", "batch", "seed", "document-end", "mask-probability", "whole-words",
                  "first-length"},
                 "--against compares the answers of two models to texts, in fp32");
  const std::string &after = values.positionals()[0], &before = values.text("against");
  io::require_model_folder("[evaluate]", after);
  io::require_model_folder("[evaluate] --against", before);
  std::vector<report::Requirement> requirements;
  for (const std::string& text : values.list("require"))
    requirements.push_back(report::parse_requirement(text, report::comparison_metrics()));
  compress::ComparisonText text;
  text.files = values.list("data");
  text.columns = values.list("text");
  text.format = data::format_named(values.text("data-format"));
  if (values.has("tokenizer")) text.tokenizer = values.text("tokenizer");
  text.length = values.integer("seq");
  text.adapter = adapter_of(values);
  const OpenMachine open = open_machine(values);
  const compress::Comparison comparison = compress::compare_models(open.machine, before, after, text);
  if (!comparison.left_out.empty())
    fail_run("[evaluate] {} was not compared with {}: {}", after, before, comparison.left_out);
  const auto is_nan = [](const std::optional<compress::Comparison::Cosine>& of) { return of && std::isnan(of->mean); };
  if (is_nan(comparison.hidden) || is_nan(comparison.embedding))
    fail_run("[evaluate] {} or {}: gives numbers that are not finite; look for them with `comera inspect`", after,
             before);
  if (values.flag("json")) {
    report::Json json = report::document("compare");
    json["model"] = after;
    json["against"] = before;
    json.update(report::comparison_json(comparison));
    print_out(report::dump(json) + "\n");
  } else {
    print_out(report::render_for_stdout(report::to_table(comparison)));
  }
  for (const report::Requirement& requirement : requirements)
    report::require_metric(report::metrics_of(comparison), requirement);
  return 0;
}

}  // namespace comera::tools
