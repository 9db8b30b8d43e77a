// Tells classes from real numbers among labels.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "lib/data/loader.h"

namespace comera::data {

// A finite number, blanks around it left out; nullopt for anything else.
std::optional<double> score_of(std::string_view label);

bool is_whole_number(std::string_view label);  // digits, a sign before them, blanks around them

// Labels are classes where they are words or whole numbers, and reals where a number has a decimal point or an
// exponent: the first label that is no whole number decides.
enum class LabelKind : std::uint8_t { classes, reals };

struct LabelSurvey {
  LabelKind kind = LabelKind::classes;
  std::string example;  // the label that decided; "" where all are whole numbers
};

// Reads the labels of spec.files as far as it must. InputError as Dataset::open().
LabelSurvey survey_labels(const DataSpec& spec);

// The distribution of the known labels of a data set for regression.
struct ScoreMoments {
  std::int64_t count = 0;
  double mean = 0, deviation = 0;
};
ScoreMoments moments_of_scores(const Dataset& dataset);

}  // namespace comera::data
