// What a model folder carries besides configuration and weights: where a copy may be finished later, and what does not
// go along.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "lib/io/model_folder.h"

namespace comera::io {

// Files of the copy that are there already: written again, or kept (what an earlier, interrupted copy left is whole).
enum class CopyOver { replace, keep };

// Names and reasons: links to folders, pipes, devices, and what is beyond 1,000 files, 1 GiB or eight folders of depth.
using SkippedFiles = std::vector<std::pair<std::string, std::string>>;

// copy_side_files() of model_folder.h; a warning names each skipped file too.
CopiedFiles copy_side_files(const std::string& from, const Folder& to, CopyLayout layout, CopyOver over,
                            SkippedFiles& skipped);

}  // namespace comera::io
