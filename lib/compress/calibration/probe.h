// Measures the change of the dense model's outputs on a little held-out text when one of its weights is replaced.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "lib/compress/calibration/calibration_text.h"
#include "lib/compress/calibration/collector.h"
#include "lib/compress/calibration/drawn_words.h"
#include "lib/compress/calibration/streamed_weights.h"
#include "lib/engine/engine.h"

namespace comera::compress {

class Probe {
 public:
  static constexpr std::int64_t tokens = 1024;  // about so many are enough

  // All arguments must outlive the probe. `blocks`: of the model. `decoder`: the table whose rows give the logits of
  // the next word; null: the model predicts no next word, or its table is no matrix.
  Probe(engine::Engine& engine, StreamedWeights& weights, std::span<const TextBatch> batches, ScratchFile& scratch,
        layers::Parameter* decoder, std::size_t blocks);

  // The change of the outputs if the parameter has these numbers. With a decoder of words: the divergence of the
  // next-word distributions, in nats (DrawnWords). Else ||y' - y||² / ||y||² of the tokens' hidden states, or of the
  // class logits. Nothing if the model has none of these. `block`: the block that contains the parameter, or the number
  // of blocks for parameters after the stack. Earlier blocks are not run again.
  std::optional<double> effect(layers::Parameter& parameter, std::span<const double> numbers, std::size_t block);

 private:
  class Blocks;
  std::vector<double> outputs(Blocks& blocks);
  double divergence(const layers::Parameter& parameter, std::span<const double> numbers,
                    std::span<const double> hidden);

  engine::Engine& engine_;
  StreamedWeights& weights_;
  std::span<const TextBatch> batches_;
  ScratchFile& scratch_;
  std::vector<std::vector<BlockOutput>> known_;  // [batch][block]
  layers::Parameter* decoder_;
  std::size_t last_;                 // block
  std::vector<double> outputs_;      // of the dense model; empty before the first effect()
  std::optional<DrawnWords> words_;  // with a decoder
};

}  // namespace comera::compress
