// A block of GPT-2: LayerNorm before each branch, q, k and v by one layer, a feed-forward with the tanh form of GELU.
// Files store the linear weights as [in, out].
#pragma once

#include "models/decoder/decoder_block.h"
#include "models/decoder/gpt2_config.h"

namespace comera::models {

class Gpt2Block final : public Block {
 public:
  Gpt2Block(Builder& builder, const DecoderSpec& spec, std::int64_t index, const SharedByBlocks& shared);

  Flow forward(Pass& pass, Flow in, const KeyRanges& keys) override;
  FlowGradient backward(Pass& pass, Sink& sink, FlowGradient d) override;

 private:
  Value attend(Pass& pass, Tensor qkv, const KeyRanges& keys);
  Tensor attention_branch(Pass& pass, Value x, const KeyRanges& keys);
  Tensor feed_forward(Pass& pass, Value x);

  const SharedByBlocks& shared_;
  std::int64_t index_, hidden_, intermediate_;
  LinearSet qkv_;
  layers::Attention attention_;
  LinearSet projection_;
  layers::ResidualNorm middle_;
  LinearSet up_, down_;
  layers::ResidualNorm output_;
};

}  // namespace comera::models
