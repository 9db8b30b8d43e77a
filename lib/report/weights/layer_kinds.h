// Counts the compressed layers of a model by kind.
#pragma once

#include <string>

#include "lib/compress/tensorize.h"
#include "lib/report/output/json.h"

namespace comera::report {

std::string kinds_cut(const compress::Result& result);  // "1 of 1 tables, 0 of 24 attention layers"
Json kinds_json(const compress::Result& result);        // {"tables": {"cut": 1, "of": 1}, ...}

}  // namespace comera::report
