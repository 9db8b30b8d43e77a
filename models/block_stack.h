// The blocks of a transformer one after another, and what is kept of them under --recompute block.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/layers/builder.h"
#include "lib/layers/linear.h"
#include "lib/layers/pass.h"

namespace comera::models {

using layers::Builder;
using layers::LinearSet;
using layers::Pass;
using layers::Sink;
using layers::Tensor;
using layers::Value;
using layers::Walk;

// Between blocks: what the next block reads, and (norms before the branches) the residual stream; else empty.
struct Flow {
  Value normed;
  Tensor stream;
};
struct FlowGradient {
  Tensor normed, stream;
};

// The keys that each query attends to, i32 [B, T] in device memory; empty: from the first, to the last.
struct KeyRanges {
  Tensor begin, end;
};

class Block {
 public:
  virtual ~Block() = default;
  // Reads `in`; the caller drops it, and what is returned.
  virtual Flow forward(Pass& pass, const Flow& in, const KeyRanges& keys) = 0;
  // Takes `d`; the caller drops what is returned.
  virtual FlowGradient backward(Pass& pass, Sink& sink, FlowGradient d) = 0;
};

class BlockStack {
 public:
  void add(std::unique_ptr<Block> block);

  // Takes `in`; the caller drops what is returned.
  Flow forward(Pass& pass, Flow in, const KeyRanges& keys);
  // Takes `d`; `keys` as in the forward.
  FlowGradient backward(Pass& pass, Sink& sink, FlowGradient d, const KeyRanges& keys);

 private:
  Flow run(Pass& pass, std::size_t index, Flow in, const KeyRanges& keys);
  bool runs_again(const Pass& pass, std::size_t index) const;
  FlowGradient run_backward(Pass& pass, Sink& sink, std::size_t index, const FlowGradient& d, const KeyRanges& keys);

  std::vector<std::unique_ptr<Block>> blocks_;
  std::vector<Flow> kept_;
  std::vector<std::string> labels_;  // of the blocks, in the memory table
};

}  // namespace comera::models
