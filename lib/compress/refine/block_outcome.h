// The result of the refinement of one block.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/io/json.h"

namespace comera::compress {

// Errors are those of the block's outputs, ||y - y0|| / ||y0|| over the tokens of a part of the text. y0: of the dense
// model; y: of the block after the compressed blocks before it.
struct BlockOutcome {
  std::size_t block = 0;
  double before = 0, after = 0;                // on text that chooses; `after` of the trained block
  double judged_before = 0, judged_after = 0;  // on text that judges, of the block as fitted and as it is stored
  bool kept = false;                           // the trained block is stored: `after` is below `before`
  double seconds = 0;
};
using BlockOutcomes = std::vector<BlockOutcome>;

io::Json to_json(const BlockOutcome& outcome);
BlockOutcome block_outcome_from(const io::Json& json, const std::string& file);

}  // namespace comera::compress
