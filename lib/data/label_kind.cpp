#include "lib/data/label_kind.h"

#include <cmath>

#include "lib/core/error.h"
#include "lib/core/units.h"
#include "lib/data/files/files.h"
#include "lib/data/files/text_reader.h"

namespace comera::data {
namespace {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r')) text.remove_suffix(1);
  return text;
}

}  // namespace

bool is_whole_number(std::string_view label) {
  label = trimmed(label);
  if (label.starts_with('-') || label.starts_with('+')) label.remove_prefix(1);
  return !label.empty() && label.find_first_not_of("0123456789") == std::string_view::npos;
}

std::optional<double> score_of(std::string_view label) {
  label = trimmed(label);
  if (label.starts_with('+') && !label.starts_with("+-")) label.remove_prefix(1);
  return parse_real(label);
}

bool has_labels(const DataSpec& spec) try {
  TextReader reader(resolve_files(spec.files).front(), {spec.format, spec.text, false, spec.label});
  Row row;
  return reader.next(row) && !row.label.empty();
} catch (const InputError&) {
  return false;
}

LabelSurvey survey_labels(const DataSpec& spec) {
  for (const std::string& file : resolve_files(spec.files)) {
    TextReader reader(file, {spec.format, spec.text, false, spec.label});
    for (Row row; reader.next(row);) {
      if (row.label.empty() || is_whole_number(row.label)) continue;
      return {score_of(row.label) ? LabelKind::reals : LabelKind::classes, std::string(row.label)};
    }
  }
  return {};
}

ScoreMoments moments_of_scores(const TextDataset& dataset) {
  ScoreMoments moments;
  double squares = 0;
  for (std::int64_t row = 0; row < dataset.size(); ++row) {  // Welford 1962, Technometrics 4
    const auto score = static_cast<double>(dataset.score(row));
    if (std::isnan(score)) continue;
    const double before = score - moments.mean;
    moments.mean += before / static_cast<double>(++moments.count);
    squares += before * (score - moments.mean);
  }
  if (moments.count > 1) moments.deviation = std::sqrt(squares / static_cast<double>(moments.count));
  return moments;
}

}  // namespace comera::data
