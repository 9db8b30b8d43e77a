// Reports of tensorize and of its plans: a line per layer, totals in whole-file bytes, and bytes against error for
// several sizes.
#pragma once

#include <span>
#include <string>

#include "lib/compress/check/verify.h"
#include "lib/compress/tensorize.h"
#include "lib/report/output/json.h"

namespace comera::report {

// For people: a line per layer with equal lines folded, and notes that explain numbers such as "dense (1)".
struct LayerLines {
  Table table;
  std::vector<std::string> notes;
};
Table refined_blocks(const compress::Result& result);  // errors of blocks before and after their refinement
LayerLines tensorize_layers(const compress::Result& result);
Json to_json(const compress::Result& result);  // "kind": "tensorize"
// Returns a few lines, the last of them the cost of compression. `last`: this is the last of all results and adds the
// hint for the next run.
std::string summary(const compress::Result& result, bool last = true);
std::string to_html(const compress::Result& result);

// For several results of one model: one row each, and a page.
Table tensorize_sizes(std::span<const compress::Result> results);
Json to_json(std::span<const compress::Result> results);
std::string to_html(std::span<const compress::Result> results);

// --dry-run: forms, ranks and bytes at one of the requested sizes, without errors.
Table tensorize_plan(const compress::Tensorizer& tensorizer, std::size_t size);
// For people.
LayerLines tensorize_plan_lines(const compress::Tensorizer& tensorizer, std::size_t size);
Json plan_json(const compress::Tensorizer& tensorizer, std::size_t size);

// The findings of `inspect --verify`.
Table verification_table(const compress::Verification& verification);
Json to_json(const compress::Verification& verification);

}  // namespace comera::report
