// The errors of layers after the refinement of their blocks.
#pragma once

#include <string>
#include <vector>

#include "lib/compress/calibration/moments.h"
#include "lib/compress/layer_job.h"
#include "lib/io/model_folder.h"

namespace comera::compress {

// Measures the fitted linear layers of this size as `comera inspect --verify` does, with all refined biases and norms
// in place, and replaces the errors of their outcomes. `vectors`: the files with these biases and
// norms.
void certify_again(std::vector<LayerJob>& jobs, std::size_t size, const io::ModelFolder& folder, InputMoments& moments,
                   const std::vector<std::string>& vectors);

}  // namespace comera::compress
