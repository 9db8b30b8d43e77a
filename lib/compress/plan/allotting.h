// The stage `allotted`: chooses the rank of each layer at a requested size by the loss curves of all layers.
#pragma once

#include "lib/compress/settings.h"

namespace comera::compress {

// Adds a size to every job: that of the rank, tolerance or budget of the goal, or of `ratio`. InputError if the budget
// is smaller than the file with rank 1 everywhere.
void allot_size(std::vector<LayerJob>& jobs, const Request& request, double ratio);

}  // namespace comera::compress
