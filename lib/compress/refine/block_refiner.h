// Refines the fitted layers of a block: their factors and cores, corrections beside grids, codes and scales
// of grids without one, biases and norms are trained on the outputs of the whole block (AA-SVD, arXiv 2604.02119).
// Weights that stay dense are fixed. The trained block is kept if its error on the text that chooses is smaller.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lib/compress/fit/work.h"
#include "lib/compress/layer_job.h"
#include "lib/compress/refine/block_outcome.h"
#include "lib/compress/refine/block_trainer.h"

namespace comera::compress {

class BlockRefiner {
 public:
  // All arguments outlive the object. `moments` knows its flows.
  BlockRefiner(std::vector<LayerJob>& jobs, const io::ModelFolder& folder, InputMoments& moments,
               const Refinement& settings, WorkFolder& work);

  // Call it when all layers of the block are fitted at this size. Their jobs then hold the refined layers, and the
  // model that `moments` runs at this size computes with them. Nothing for a block that is not refined: without
  // compressed layers, where it does not pay (Refinement::When), and beyond the stack. Takes a block that `work` holds
  // from there.
  std::optional<BlockOutcome> refine(std::size_t block, std::size_t size);

 private:
  struct Vector {
    std::string tensor;
    io::StoredType type = io::StoredType::F32;
    std::vector<std::byte> bytes;
  };
  models::ModelSpec spec_of(const std::vector<std::string>& linears, std::size_t size) const;
  LayerJob* compressed(const std::string& linear, std::size_t size) const;
  bool is_refined(const std::string& linear, std::size_t size) const;  // true: its block is refined
  void load(BlockTrainer& trainer, std::size_t size) const;
  BlockOutcome train(BlockTrainer& trainer, std::size_t block, std::size_t size);
  void round(BlockTrainer& trainer, std::size_t size) const;
  void save_layer(BlockTrainer& trainer, LayerJob& job, std::size_t size);
  void save(BlockTrainer& trainer, const BlockOutcome& outcome, std::size_t size);
  void adopt(BlockTrainer& trainer, const std::vector<std::string>& linears, std::size_t block, std::size_t size);
  io::StoredType type_of(const layers::Parameter& vector) const;

  const io::ModelFolder& folder_;
  InputMoments& moments_;
  BlockFlows& flows_;
  const Refinement& settings_;
  WorkFolder& work_;
  std::map<std::string, LayerJob*> jobs_;  // by the name of the layer
};

}  // namespace comera::compress
