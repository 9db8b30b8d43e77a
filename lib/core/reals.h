// Rounded numbers for readers of help, recipes, logs, tables and pages. format_real of lib/core/units.h gives all
// digits.
#pragma once

#include <string>

namespace comera {

// Rounds to `digits` significant digits and spells as format_real: 3.21, 0.002, 2.9e-4, 1.5e6.
std::string format_digits(double value, int digits);

}  // namespace comera
