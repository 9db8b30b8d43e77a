// Measures the change of the dense model's outputs on a little held-out text when one of its weights is replaced.
#pragma once

#include <span>
#include <vector>

#include "lib/compress/calibration/calibration_text.h"
#include "lib/compress/calibration/collector.h"
#include "lib/compress/calibration/streamed_weights.h"
#include "lib/engine/engine.h"

namespace comera::compress {

class Probe {
 public:
  // All arguments must outlive the probe.
  Probe(engine::Engine& engine, StreamedWeights& weights, std::span<const TextBatch> batches, ScratchFile& scratch);

  // ||y' - y||² / ||y||² of the tokens' hidden states, or of the class logits, if the parameter has these numbers.
  // Nothing if the model has neither output. `block`: the block that contains the parameter, or the number of blocks
  // for parameters after the stack. Earlier blocks are not run again.
  std::optional<double> effect(layers::Parameter& parameter, std::span<const double> numbers, std::size_t block);

 private:
  class Blocks;
  std::vector<double> outputs(Blocks& blocks);

  engine::Engine& engine_;
  StreamedWeights& weights_;
  std::vector<const TextBatch*> batches_;
  ScratchFile& scratch_;
  std::vector<std::vector<BlockOutput>> known_;  // [batch][block]
  std::vector<double> outputs_;                  // of the dense model; empty before the first effect()
};

}  // namespace comera::compress
