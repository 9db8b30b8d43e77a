// The word for the form of a chain, the same in every table and report.
#pragma once

#include "lib/io/tt_format.h"

namespace comera::io {

// "lowrank" where the weight is one pair of factors (a table's chain then has the modes [rows, 1] and [1, columns]),
// else "tt" or "ttm".
const char* form_name(ChainKind kind, const FileShape& modes);

}  // namespace comera::io
