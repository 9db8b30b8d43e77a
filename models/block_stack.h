// The stack of transformer blocks, and the tensors it keeps of blocks that run again.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/layers/linear.h"
#include "lib/layers/training/builder.h"
#include "lib/layers/training/pass.h"

namespace comera::models {

using layers::Builder;
using layers::LinearSet;
using layers::Pass;
using layers::Sink;
using layers::Tensor;
using layers::Value;
using layers::Walk;

// The values between two blocks: the input of the next block and, for pre-LN, the residual stream (otherwise empty).
struct Flow {
  Value normed;
  Tensor residual;
};
struct FlowGradient {
  Tensor normed, residual;
};
// Of one tensor that is both: takes both gradients, the caller drops the sum.
Tensor sum_of(Pass& pass, FlowGradient d);

// The range of keys that each query attends to, i32 [B, T] in device memory. Empty: from the first key, or to the last
// key. near_begin and near_end: the range in blocks whose attention has a window, in models with such blocks. Decoders
// have no near_end: a window ends where all ranges end.
struct KeyRanges {
  Tensor begin, end;
  Tensor near_begin, near_end;
};

class Block {
 public:
  virtual ~Block() = default;
  // Takes ownership of `in` and drops each tensor after its last reader. The caller drops the result.
  virtual Flow forward(Pass& pass, Flow in, const KeyRanges& keys) = 0;
  // Takes ownership of `d`. The caller drops the result.
  virtual FlowGradient backward(Pass& pass, Sink& sink, FlowGradient d) = 0;
};

class BlockStack {
 public:
  // `name` is what the names of its weights begin with, such as "model.layers.3".
  void add(std::unique_ptr<Block> block, std::string name);

  // Takes ownership of `in`. The caller drops the result.
  Flow forward(Pass& pass, Flow in, const KeyRanges& keys);
  // Takes ownership of `d`. `keys` are those of the forward.
  FlowGradient backward(Pass& pass, Sink& sink, FlowGradient d, const KeyRanges& keys);

 private:
  Flow run(Pass& pass, std::size_t index, Flow in, const KeyRanges& keys);
  // The policy for the values of a block, in the forward and when it runs again.
  layers::SavePolicy policy_inside(const Pass& pass, std::size_t index) const;
  bool runs_again(const Pass& pass, std::size_t index) const;
  FlowGradient run_backward(Pass& pass, Sink& sink, std::size_t index, const FlowGradient& d, const KeyRanges& keys);

  std::vector<std::unique_ptr<Block>> blocks_;
  std::vector<Flow> kept_;
  std::vector<std::string> names_;
  std::vector<std::string> labels_;  // names of the blocks in the memory table
};

}  // namespace comera::models
