// Real numbers as people read them: in help, recipes, logs, tables and pages. format_real of lib/core/units.h has every
// digit.
#pragma once

#include <string>

namespace comera {

// Rounded to so many digits, spelled as format_real spells: 3.21, 0.002, 2.9e-4, 1.5e6.
std::string format_digits(double value, int digits);

}  // namespace comera
