// Distinguishes class labels from real numbers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "lib/data/loader.h"

namespace comera::data {

// Parses a finite number with optional blanks around it. nullopt for anything else.
std::optional<double> score_of(std::string_view label);

bool is_whole_number(std::string_view label);  // digits with an optional sign, and optional blanks around them

// Words and whole numbers are classes. Numbers with a decimal point or an exponent are reals. The first label that is
// no whole number decides.
enum class LabelKind : std::uint8_t { classes, reals };

struct LabelSurvey {
  LabelKind kind = LabelKind::classes;
  std::string example;  // the label that decided; "" if all are whole numbers
};

// True if the first file is a table with a label in its first row. False for a file that cannot be read so.
bool has_labels(const DataSpec& spec);

// Reads the labels of spec.files until one decides. InputError as Dataset::open().
LabelSurvey survey_labels(const DataSpec& spec);

// Moments of the known labels of a regression data set.
struct ScoreMoments {
  std::int64_t count = 0;
  double mean = 0, deviation = 0;
};
ScoreMoments moments_of_scores(const TextDataset& dataset);

}  // namespace comera::data
