// The inputs and target outputs of a block on the calibration text, for its refinement (lib/compress/refine): the input
// comes from the compressed blocks before it, the target from the dense model.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/compress/calibration/calibration_text.h"
#include "lib/compress/calibration/collector.h"
#include "lib/compress/calibration/streamed_weights.h"
#include "lib/engine/engine.h"

namespace comera::compress {

class BlockFlows {
 public:
  // The parts of a calibration that outlive the object.
  struct Parts {
    plan::Machine machine;
    const models::ModelSpec& spec;
    engine::Engine& engine;
    StreamedWeights& weights;
    const std::vector<TextBatch>& batches;
    ScratchFile& scratch;
    // The block outputs of the compressed model of a size.
    std::function<BlockOutputs&(std::size_t size)> current;
    // The products of layers that are replaced by factors.
    std::function<layers::Instead(const std::string& layer, std::int64_t tokens)> instead;
  };

  explicit BlockFlows(const Parts& parts);

  const plan::Machine& machine() const { return parts_.machine; }
  const models::ModelSpec& spec() const { return parts_.spec; }  // of the dense model
  const std::vector<TextBatch>& batches() const { return parts_.batches; }

  // Makes the flows of a block ready: the models run from where they were left, and then free their memory.
  void open(std::size_t block, std::size_t size);
  // Frees the memory of weights and activations until the models run again.
  void free_step();
  // A batch for models::make_lone_block(). The reference is valid until the next call.
  const data::Batch& batch(std::size_t index);
  // Stores the outputs of the refined block for this batch, as models::make_lone_block() gives them. After close(), the
  // model of this size runs on from them.
  void keep(std::size_t index, const engine::Scores& scores);
  void close();

  // The numbers of the dense model, in the orientation of memory, and the tensor that holds them.
  void read(const layers::Parameter& parameter, std::span<float> numbers) const;
  const layers::Parameter& of_model(const layers::Parameter& of_block) const;
  std::string tensor_of(const layers::Parameter& parameter) const;

 private:
  using Version = StreamedWeights::Version;
  void run(Version version, BlockOutputs& outputs, std::optional<std::size_t> until);

  Parts parts_;
  bool norms_inputs_;
  std::size_t block_ = 0, size_ = 0;
  BlockOutputs first_;  // inputs of the first block
  BlockOutputs dense_;  // of the dense model
  data::Batch batch_;
  std::vector<float> beside_, normed_, residual_;
};

}  // namespace comera::compress
