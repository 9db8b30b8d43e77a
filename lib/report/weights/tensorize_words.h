// Names and columns that tables, pages and JSON of tensorize share.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/compress/tensorize.h"
#include "lib/report/output/table.h"

namespace comera::report {

// The name of a layer's weight in the file.
std::string weight_name(const std::string& layer, bool bare, const compress::OutputFormat& format);
double ratio_of(const compress::LayerOutcome& layer);
std::string error_name(const compress::Result& result);  // of Result::errors(): "output error" or "weight error"
// "3 weights without an output error"; "" if Result::unmeasured_errors() has no layers.
std::string unmeasured_name(const compress::Result& result);
// Cosine of embeddings, or of hidden states if there are no embeddings.
std::optional<double> cosine_of(const compress::Result& result);
std::optional<double> perplexity_of(const compress::Result& result);
Cell rounded(const std::optional<double>& value);  // to four decimals, the precision of an error
Cell text_or_nothing(const std::string& text);     // empty cell for ""
// What would keep more of the model at this size; "": nothing that is known.
std::string hint(const compress::Result& result);

// The reasons why layers stay dense. Many layers share a few sentences, so a layer's row contains only the number of
// its sentence.
class Reasons {
 public:
  std::string marked(const std::string& form, const std::string& reason);  // "dense (1)"
  std::vector<std::string> lines() const;                                  // "(1) ..."

 private:
  std::vector<std::string> texts_;
};

}  // namespace comera::report
