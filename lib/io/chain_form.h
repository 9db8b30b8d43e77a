// The name of a chain's form, as all tables and reports use it.
#pragma once

#include "lib/io/tt_format.h"

namespace comera::io {

// "lowrank" if the chain is one pair of factors (a table's chain then has the modes [rows, 1] and [1, columns]), else
// "tt" or "ttm".
const char* form_name(ChainKind kind, const FileShape& modes);

}  // namespace comera::io
