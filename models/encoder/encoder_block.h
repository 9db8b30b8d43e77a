// One block of an encoder: attention and feed-forward, each followed by the residual sum and a norm.
//
//   s' = stream + dropout(attention(n)),  n' = norm(s'),   s'' = s' + dropout(ffn(n')),  n'' = norm(s'')
// Post-LN (BERT): the residual stream is n itself. Pre-LN: the residual stream is the sum, and the block's last norm is
// the next block's first. ModernBERT has q, k and v in one layer, rotary positions, a window in some blocks, and a
// gated feed-forward whose two halves are one layer.
#pragma once

#include <optional>

#include "lib/layers/attention.h"
#include "lib/layers/gated.h"
#include "lib/layers/linear.h"
#include "lib/layers/norm.h"
#include "models/block_stack.h"
#include "models/encoder/encoder_shared.h"

namespace comera::models {

layers::ResidualNorm::Settings norm_settings(const EncoderSpec& spec, double dropout, double output_dropout = 0);

class EncoderBlock final : public Block {
 public:
  // `shared` outlives the block.
  EncoderBlock(Builder& builder, const EncoderSpec& spec, std::int64_t index, EncoderShared& shared);

  Flow forward(Pass& pass, Flow in, const KeyRanges& keys) override;
  FlowGradient backward(Pass& pass, Sink& sink, FlowGradient d) override;

 private:
  // The outputs of the heads.
  Value mix(Pass& pass, Value x, const Tensor& begin, const Tensor& end);
  Tensor residual_of(Pass& pass, const Flow& flow) const;
  Tensor attend(Pass& pass, Value x, const KeyRanges& keys);
  Tensor feed_forward(Pass& pass, Value x);
  void attend_backward(Pass& pass, Sink& sink, Tensor d, const Tensor& dx, bool accumulate);
  void feed_forward_backward(Pass& pass, Sink& sink, Tensor d, const Tensor& dx, bool accumulate);

  bool pre_norm_, near_;  // near_: attends to a window
  std::int64_t hidden_, intermediate_, heads_;
  const layers::Rotary* rotary_;
  LinearSet qkv_;
  layers::Attention attention_;
  LinearSet projection_;
  layers::ResidualNorm middle_;
  LinearSet up_;
  std::optional<layers::Gated> gated_;
  LinearSet down_;
  layers::ResidualNorm output_;
};

}  // namespace comera::models
