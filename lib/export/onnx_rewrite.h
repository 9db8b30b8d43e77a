// An ONNX file there and back: its weights as a folder that can be tensorized, and the graph again with the chains that became of them.
#pragma once

#include <cstdint>
#include <string>

#include "lib/export/settings.h"

namespace comera::exporting {

// Writes the matrices that products and lookups read (lib/export/onnx_weights.h) as a model folder. InputError: the file is damaged, or holds
// no such matrix.
void extract_onnx_weights(const std::string& source, const std::string& folder);

struct RewrittenOnnx {
  std::int64_t weights = 0;  // that became chains
  std::uint64_t bytes = 0, bytes_source = 0;
};
// The graph of `source` with the chains of `folder` in the place of their weights, everything else untouched, written to `output`.
RewrittenOnnx rewrite_onnx(const std::string& source, const std::string& folder, const std::string& output, GraphForm form);

}  // namespace comera::exporting
