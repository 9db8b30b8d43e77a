// Collects the inputs of layers while a model runs, for calibration (lib/layers/training/observe.h).
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/compress/calibration/calibration_text.h"
#include "lib/core/files/scratch_file.h"
#include "lib/layers/training/observe.h"
#include "lib/tt/matrix.h"

namespace comera::compress {

// Layers that read the same input, in the order in which the model runs them.
struct Group {
  std::vector<std::string> layers;  // names in the model
  std::int64_t width = 0;
  bool joins = false;  // the output of the last of them is added to a residual stream
  // Index of the block; groups after the stack: number of blocks. Groups of one block are measured together.
  std::size_t block = 0;
};

// Finds the groups in one forward. Consecutive layers that read the same numbers form a group.
class Finder final : public layers::InputObserver {
 public:
  void see(const std::string& layer, const plan::Tensor& x) override;
  void join(const plan::Tensor&, const plan::Tensor&) override { groups.back().joins = true; }
  void leave(std::size_t block, plan::Tensor&, plan::Tensor&) override { block_ = block + 1; }
  std::vector<Group> groups;

 private:
  std::size_t block_ = 0;
  std::string last_;  // hash of the last input
};

// The output of a block for one batch, stored in a scratch file.
class BlockOutput {
 public:
  void keep(ScratchFile& file, const plan::Tensor& normed, const plan::Tensor& residual);
  void give(const ScratchFile& file, plan::Tensor& normed, plan::Tensor& residual) const;

 private:
  std::optional<std::uint64_t> place_;
  std::size_t bytes_ = 0;  // of both tensors
};

// The outputs of one block for every batch. While the weights of the earlier blocks do not change, these blocks need
// not run again.
struct BlockOutputs {
  std::optional<std::size_t> block = {};  // empty: nothing is stored
  std::vector<BlockOutput> batches = {};
};

// Thrown to end a forward early when all needed data has been collected.
struct SeenEnough {};

// Collects the inputs of some groups for one batch, or their outputs, and the residual stream that these are added to.
// Padding rows are left out.
class Collector final : public layers::InputObserver {
 public:
  enum class Reads : std::uint8_t { inputs, weighed_inputs, outputs };

  struct Seen {
    // [tokens x in], [tokens x out], [tokens x out]; `given` is added to the residual stream. `x` is read with the
    // inputs, `given` with the outputs.
    tt::FloatMatrix x, residual, given;
    // With weighed inputs, in fitted and choosing text: min(1, clip median / length) for each token. Its length is that
    // of its stream, |residual + given|; `median` is the median length of the batch. A length that is not finite has
    // weight 1.
    // The next norm divides the stream by its length, and so the errors in it. A few tokens are a hundred times as long
    // as the others (massive activations, Sun et al. 2024, arXiv 2402.17762). Their errors would outweigh all others.
    std::vector<float> weights;
    static constexpr double clip = 2;
    // False: the matrices hold data of an earlier batch. A head may read only some of the rows, or add to no residual
    // stream.
    bool has_x = false, has_residual = false;
  };

  // If `outputs` holds a block before that of the groups, forwards start after that block. They store in `outputs` the
  // output of block `kept`, which is the one before the groups or a later one. It is valid after close(), when all
  // batches have run. A forward ends when all groups have been seen and the output is stored.
  Collector(std::span<const Group> groups, Reads reads, std::optional<std::size_t> kept, BlockOutputs& outputs,
            ScratchFile& scratch);

  void open(const TextBatch& batch, BlockOutput& output);
  void close() { outputs_.block = kept_; }
  void see(const std::string& layer, const plan::Tensor& x) override;
  layers::Instead instead(const std::string& layer, std::int64_t tokens) override;
  void join(const plan::Tensor& residual, const plan::Tensor& given) override;
  bool enter(std::size_t block) override { return known_ && block <= *known_; }
  void leave(std::size_t block, plan::Tensor& normed, plan::Tensor& residual) override;

  std::vector<Seen> seen;  // one per group
  // The products of layers that are replaced by factors; empty: none.
  std::function<layers::Instead(const std::string& layer, std::int64_t tokens)> factors = {};

 private:
  bool read(const plan::Tensor& x, tt::FloatMatrix& values) const;
  bool weighs() const { return reads_ == Reads::weighed_inputs && batch_->part != TextPart::judging; }
  void weigh(const plan::Tensor& given, Seen& seen) const;
  void seen_all();

  std::map<std::string, std::size_t> index_;
  Reads reads_;
  BlockOutputs& outputs_;
  ScratchFile& scratch_;
  std::optional<std::size_t> known_, kept_;
  bool goes_on_ = false;  // the forward continues after the last group
  // The last layer: one that adds to a residual stream computes nothing if its tokens are not weighed, and a forward
  // ends at any other. Empty: its outputs are read.
  std::string unread_, end_;
  const TextBatch* batch_ = nullptr;
  BlockOutput* output_ = nullptr;
  Seen* last_ = nullptr;
};

}  // namespace comera::compress
