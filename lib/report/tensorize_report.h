// Reports of tensorize and of its plans: a line per layer, totals in whole-file bytes, and for several ratios bytes
// against error.
#pragma once

#include <span>
#include <string>

#include "lib/compress/tensorize.h"
#include "lib/compress/verify.h"
#include "lib/report/json.h"

namespace comera::report {

// For people: a line per layer, those that say the same as one, and what the numbers behind "dense (1)" mean.
struct LayerLines {
  Table table;
  std::vector<std::string> notes;
};
LayerLines tensorize_layers(const compress::Result& result);
Json to_json(const compress::Result& result);  // "kind": "tensorize"
// A few lines, the last of them what compression cost; `last`: of all results, where the hint for the next run stands.
std::string summary(const compress::Result& result, bool last = true);
std::string to_html(const compress::Result& result);

// Several results of one model: one row each, and a page.
Table tensorize_ratios(std::span<const compress::Result> results);
Json to_json(std::span<const compress::Result> results);
std::string to_html(std::span<const compress::Result> results);

// --dry-run: forms, ranks and bytes, nothing of errors.
Table tensorize_plan(const compress::Tensorizer& tensorizer, const compress::Planned& planned);
LayerLines tensorize_plan_lines(const compress::Tensorizer& tensorizer,
                                const compress::Planned& planned);  // for people
Json plan_json(const compress::Tensorizer& tensorizer, const compress::Planned& planned);

// The findings of `inspect --verify`.
Table verification_table(const compress::Verification& verification);
Json to_json(const compress::Verification& verification);

// Mean over all layers, dense ones as 0: of the output errors where they are known, else of the weights'.
double mean_error(const compress::Result& result);

}  // namespace comera::report
