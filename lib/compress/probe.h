// Measures how far the dense model's outputs on a little held-out text move when one of its weights is replaced.
#pragma once

#include <span>
#include <vector>

#include "lib/compress/calibration_text.h"
#include "lib/compress/collector.h"
#include "lib/compress/streamed_weights.h"
#include "lib/train/step.h"

namespace comera::compress {

class Probe {
 public:
  // All of them outlive the probe.
  Probe(train::Engine& engine, StreamedWeights& weights, std::span<const TextBatch> batches, ScratchFile& scratch);

  // ||y' - y||² / ||y||² of the hidden states of the tokens, or of the classes' logits, when the parameter has these
  // numbers. Nothing where the model gives neither. `block`: of the stack that the parameter is in or behind; those
  // before it need not run again.
  std::optional<double> effect(layers::Parameter& parameter, std::span<const double> numbers, std::size_t block);

 private:
  class Blocks;
  std::vector<double> outputs(Blocks& blocks);

  train::Engine& engine_;
  StreamedWeights& weights_;
  std::vector<const TextBatch*> batches_;
  ScratchFile& scratch_;
  std::vector<std::vector<BlockOutput>> known_;  // of every batch, by block
  std::vector<double> outputs_;                  // of the model as it came; empty before the first effect
};

}  // namespace comera::compress
