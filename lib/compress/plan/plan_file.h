// The plan as a file that users may edit (--dump-plan, --plan): the form and ranks of every layer at one size.
#pragma once

#include <string>
#include <vector>

#include "lib/compress/layer_job.h"

namespace comera::compress {

io::Json plan_file(const std::vector<LayerJob>& jobs, std::size_t size, double ratio);  // ratio 0: none requested

// Adds the size of the plan file to every job and returns its ratio, or 0. Layers that the file does not list stay
// dense. InputError with `file` and the place: unknown keys, a layer that the model does not have or that appears
// twice, modes that do not multiply to its size, a rank above the possible maximum, ranks of single bonds that do not
// fit together.
double read_plan_file(const std::string& text, const std::string& file, std::vector<LayerJob>& jobs);

}  // namespace comera::compress
