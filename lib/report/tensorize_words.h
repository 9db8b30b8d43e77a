// Names and columns that tables, pages and JSON of tensorize share.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/compress/tensorize.h"
#include "lib/report/table.h"

namespace comera::report {

// The name of a layer's weight; in a graph weights have the names of their initialisers.
std::string weight_name(const std::string& layer, bool bare, bool graph);
std::string stored_file(bool graph);  // "weights file", "ONNX file"
double ratio_of(const compress::LayerOutcome& layer);
double error_of(const compress::LayerOutcome& layer);    // of its outputs where that is known, else of its weight
std::string error_name(const compress::Result& result);  // "output error" or "weight error"
std::optional<double> cosine_of(
    const compress::Result& result);  // of embeddings, or of hidden states where there are no embeddings
std::optional<double> perplexity_of(const compress::Result& result);
Cell rounded(const std::optional<double>& value);  // to four decimals: what an error is known to
Cell text_or_nothing(const std::string& text);     // nothing for ""
constexpr const char* calibration_hint = "text given with --calibrate keeps more of the model at this size";
bool may_calibrate(const compress::Result& result);

// The reasons why layers stay dense: a few sentences that many layers share, so that a layer's row has their number
// alone.
class Reasons {
 public:
  std::string marked(const std::string& form, const std::string& reason);  // "dense (1)"
  std::vector<std::string> lines() const;                                  // "(1) ..."

 private:
  std::vector<std::string> texts_;
};

}  // namespace comera::report
