// Memory that the refinement of blocks will take.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lib/compress/calibration/block_flows.h"
#include "lib/compress/layer_job.h"
#include "lib/compress/settings.h"

namespace comera::compress {

// The chains of the layers of a block at a size, by layer. Layers that stay dense are not among them.
std::map<std::string, io::ChainSpec> chains_of_block(const models::ModelSpec& spec, std::int64_t block,
                                                     const std::map<std::string, const LayerJob*>& jobs,
                                                     std::size_t size);
std::map<std::string, const LayerJob*> by_layer(const std::vector<LayerJob>& jobs);
// True if a block with these chains is refined.
bool is_refined(const std::map<std::string, io::ChainSpec>& chains, Refinement::When when);

// Bytes of a block in training: what its engine plans, its weights on grids, and one batch of its inputs, targets and
// outputs.
std::uint64_t bytes_of_block(const plan::Machine& machine, const models::ModelSpec& spec, std::int64_t block,
                             const std::map<std::string, io::ChainSpec>& chains, const data::Batch& text);
// The same of the largest block that is refined at any size; 0 if none is. `flows` give the text and the model.
std::uint64_t refinement_bytes(const BlockFlows& flows, const std::vector<LayerJob>& jobs, Refinement::When when);

}  // namespace comera::compress
