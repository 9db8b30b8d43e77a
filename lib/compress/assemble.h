// The compressed folder out of the dense one and the finished layers.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lib/compress/certificate.h"

namespace comera::compress {

// Whole-file bytes of the weights when layer i becomes chains[i] (nothing: stays dense); at least what is written, by a
// few bytes.
std::uint64_t planned_file_bytes(const io::ModelFolder& folder, const std::vector<Candidate>& candidates,
                                 const std::vector<std::optional<io::ChainSpec>>& chains,
                                 const std::optional<MomentsInfo>& calibration);

// Writes `output` in one instant: weights in as many shards as they came in, config.json with the `comera` block, side
// files. `path_of(i)` is the file that holds the tensors of layer i. A dense number that is not finite is an InputError
// that names its tensor.
io::CopiedFiles assemble(const io::ModelFolder& folder, const std::optional<io::ComeraBlock>& block,
                         const std::vector<Candidate>& candidates, const std::vector<LayerOutcome>& layers,
                         const std::function<std::string(std::size_t)>& path_of,
                         const std::optional<MomentsInfo>& calibration, const std::string& output);

}  // namespace comera::compress
