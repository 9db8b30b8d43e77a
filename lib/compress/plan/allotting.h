// The stage `allotted`: chooses the rank of each layer at a requested size by the loss curves of all layers.
#pragma once

#include "lib/compress/settings.h"

namespace comera::compress {

// InputError if a budget or ratio of the goal is smaller than the file with rank 1, or with the fewest bits,
// everywhere. Reads no weights, for a refusal before the layers are measured.
void require_possible(std::vector<LayerJob>& jobs, const Request& request);

// Adds a size to every job: that of `budget` in bytes of the counted file, else of the rank or tolerance of the goal.
// InputError if the budget is smaller than the file with rank 1, or with the fewest bits, everywhere.
void allot_size(std::vector<LayerJob>& jobs, const Request& request, std::optional<std::uint64_t> budget);

}  // namespace comera::compress
