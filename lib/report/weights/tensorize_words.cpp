#include "lib/report/weights/tensorize_words.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace comera::report {

std::string weight_name(const std::string& layer, bool bare, const compress::OutputFormat& format) {
  return bare ? layer : layer + format.weight_ending;
}

double ratio_of(const compress::LayerOutcome& layer) {
  return static_cast<double>(layer.bytes_dense) / static_cast<double>(std::max<std::uint64_t>(1, layer.bytes));
}

std::string error_name(const compress::Result& result) {
  return result.measures_outputs() ? "output error" : "weight error";
}

std::string unmeasured_name(const compress::Result& result) {
  const std::int64_t layers = result.unmeasured_errors().layers;
  if (layers == 0) return "";
  return fmt::format("{} weight{} without an output error", layers, layers == 1 ? "" : "s");
}

std::optional<double> cosine_of(const compress::Result& result) {
  if (!result.cost) return std::nullopt;
  const auto& cosine = result.cost->embedding ? result.cost->embedding : result.cost->hidden;
  return cosine ? std::optional(cosine->mean) : std::nullopt;
}

std::optional<double> perplexity_of(const compress::Result& result) {
  return result.cost && result.cost->answers ? result.cost->answers->perplexity : std::nullopt;
}

Cell rounded(const std::optional<double>& value) { return value ? Cell(std::round(1e4 * *value) / 1e4) : Cell(); }
Cell text_or_nothing(const std::string& text) { return text.empty() ? Cell() : Cell(text); }

std::string hint(const compress::Result& result) {
  if (result.cost && !result.cost->left_out.empty()) return "";  // text reaches no model that does not run
  if (result.format.folder && !result.calibration)               // calibration runs a model folder
    return "text given with --calibrate keeps more of the model at this size";
  if (result.refinement_seconds)
    return fmt::format("--refine keeps more of the model at this size, in about {:.0f} minutes more",
                       std::ceil(*result.refinement_seconds / 60));
  return "";
}

std::string Reasons::marked(const std::string& form, const std::string& reason) {
  if (reason.empty()) return form;
  const auto found = std::find(texts_.begin(), texts_.end(), reason);
  const auto at = found - texts_.begin();
  if (found == texts_.end()) texts_.push_back(reason);
  return fmt::format("{} ({})", form, at + 1);
}

std::vector<std::string> Reasons::lines() const {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < texts_.size(); ++i) lines.push_back(fmt::format("({}) {}", i + 1, texts_[i]));
  return lines;
}

}  // namespace comera::report
