// Copies the side files of a model folder, including a resumed copy, and lists the skipped files.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "lib/io/model_folder.h"

namespace comera::io {

// Treatment of files that already exist in the copy: write again, or keep (files of an interrupted copy are complete).
enum class CopyOver { replace, keep };

// Names and reasons: links to folders, links to files that are neither in the model folder nor blobs of a hub cache,
// pipes, devices, and everything above 1,000 files, 1 GiB or eight levels of folders.
using SkippedFiles = std::vector<std::pair<std::string, std::string>>;

// As copy_side_files() of model_folder.h. It also logs a warning that names the skipped files.
CopiedFiles copy_side_files(const std::string& from, const Folder& to, CopyLayout layout, CopyOver over,
                            SkippedFiles& skipped);

}  // namespace comera::io
