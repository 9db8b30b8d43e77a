// Collects the inputs of layers while a model runs, for calibration (lib/layers/observe.h).
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/compress/calibration_text.h"
#include "lib/core/scratch_file.h"
#include "lib/layers/observe.h"
#include "lib/tt/matrix.h"

namespace comera::compress {

// Layers that read one input, in the order in which the model runs.
struct Group {
  std::vector<std::string> layers;  // as the model names them
  std::int64_t width = 0;
  bool joins = false;  // what the last of them gives is added to a residual stream
  std::size_t block =
      0;  // of the stack; behind it, the number of its blocks. Groups of one block are measured together
};

// Finds the groups in one forward: layers one after the other that see the same numbers belong together.
class Finder final : public layers::InputObserver {
 public:
  void see(const std::string& layer, const plan::Tensor& x) override;
  void join(const plan::Tensor&, const plan::Tensor&) override { groups.back().joins = true; }
  void leave(std::size_t block, plan::Tensor&, plan::Tensor&) override { block_ = block + 1; }
  std::vector<Group> groups;

 private:
  std::size_t block_ = 0;
  std::string last_;  // hash of what was seen
};

// The output of a block for one batch, in a scratch file.
class BlockOutput {
 public:
  void keep(ScratchFile& file, const plan::Tensor& normed, const plan::Tensor& stream);
  void give(const ScratchFile& file, plan::Tensor& normed, plan::Tensor& stream) const;

 private:
  std::optional<std::uint64_t> place_;
  std::size_t bytes_ = 0;  // of both
};

// The outputs of one block for every batch. The blocks before it need not run again while their weights stay as they
// are.
struct BlockOutputs {
  std::optional<std::size_t> block = {};  // empty: of none
  std::vector<BlockOutput> batches = {};
};

// Ends a forward whose rest nobody needs.
struct SeenEnough {};

// Keeps what some groups read of one batch, and the stream that what they give is added to; rows of padding are left
// out.
class Collector final : public layers::InputObserver {
 public:
  struct Seen {
    tt::FloatMatrix x, stream, given;        // [tokens x in], and twice [tokens x out]: `given` is added to the stream
    bool has_x = false, has_stream = false;  // else what is there is an earlier batch's: a head reads some of the rows
                                             // alone, or adds to nothing
  };

  // Forwards begin behind the block that `outputs` knows, where that is before the groups', and leave there what block
  // `kept` gives, the one before the groups' or a later one: known after all batches' by close(). They end when the
  // groups were seen and that is kept.
  Collector(std::span<const Group> groups, std::optional<std::size_t> kept, BlockOutputs& outputs,
            ScratchFile& scratch);

  void open(const TextBatch& batch, BlockOutput& output);
  void close() { outputs_.block = kept_; }
  void see(const std::string& layer, const plan::Tensor& x) override;
  void join(const plan::Tensor& stream, const plan::Tensor& given) override;
  bool enter(std::size_t block) override { return known_ && block <= *known_; }
  void leave(std::size_t block, plan::Tensor& normed, plan::Tensor& stream) override;

  std::vector<Seen> seen;  // of each group

 private:
  bool read(const plan::Tensor& x, tt::FloatMatrix& values) const;
  void seen_all();

  std::map<std::string, std::size_t> index_;
  BlockOutputs& outputs_;
  ScratchFile& scratch_;
  std::optional<std::size_t> known_, kept_;
  bool goes_on_ = false;  // behind the last group
  const TextBatch* batch_ = nullptr;
  BlockOutput* output_ = nullptr;
  Seen* last_ = nullptr;
};

}  // namespace comera::compress
