// Builds the compressed folder from the dense folder and the finished layers.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lib/compress/certificate.h"

namespace comera::compress {

// Bytes of the whole weights files if layer i becomes chains[i] (nullopt: stays dense). An upper bound, a few bytes
// above the written size.
std::uint64_t planned_file_bytes(const io::ModelFolder& folder, const std::vector<Candidate>& candidates,
                                 const std::vector<std::optional<io::ChainSpec>>& chains,
                                 const std::optional<MomentsInfo>& calibration);

// Writes `output` atomically: weights in as many shards as the source has, config.json with the `comera` block, side
// files. `path_of(i)` is the file that holds the tensors of layer i. InputError with the tensor's name if a dense
// number is not finite.
io::CopiedFiles assemble(const io::ModelFolder& folder, const std::optional<io::ComeraBlock>& block,
                         const std::vector<Candidate>& candidates, const std::vector<LayerOutcome>& layers,
                         const std::function<std::string(std::size_t)>& path_of,
                         const std::optional<MomentsInfo>& calibration, const std::string& output);

}  // namespace comera::compress
