// One block of an encoder: attention and feed-forward, each followed by the residual sum and a norm.
//
//   s' = stream + dropout(attention(n)),  n' = norm(s'),   s'' = s' + dropout(ffn(n')),  n'' = norm(s'')
// Post-LN (BERT): the stream is n itself. Pre-LN: the stream is the sum, and the block's last norm is the next block's first.
#pragma once

#include "lib/layers/attention.h"
#include "lib/layers/linear.h"
#include "lib/layers/norm.h"
#include "models/encoder_spec.h"

namespace comera::models {

using layers::Builder;
using layers::LinearSet;
using layers::Pass;
using layers::Sink;
using layers::Tensor;
using layers::Value;
using layers::Walk;

// Between blocks: what the next block reads, and (pre-LN) the residual stream.
struct Flow {
  Value normed;
  Tensor stream;
};
struct FlowGradient {
  Tensor normed, stream;
};

class EncoderBlock {
 public:
  EncoderBlock(Builder& builder, const EncoderSpec& spec, std::int64_t index);

  // Reads `in`; the caller drops it, and what is returned.
  Flow forward(Pass& pass, const Flow& in, const Tensor& key_end);
  // Takes `d`; the caller drops what is returned.
  FlowGradient backward(Pass& pass, Sink& sink, FlowGradient d);

 private:
  Tensor attend(Pass& pass, const Value& x, const Tensor& key_end);
  Tensor feed_forward(Pass& pass, const Value& x);
  void attend_backward(Pass& pass, Sink& sink, Tensor d, const Tensor& dx, bool accumulate);
  void feed_forward_backward(Pass& pass, Sink& sink, Tensor d, const Tensor& dx, bool accumulate);

  bool pre_norm_;
  std::int64_t hidden_, intermediate_;
  LinearSet qkv_;
  layers::Attention attention_;
  LinearSet projection_;
  layers::ResidualNorm middle_;
  LinearSet up_, down_;
  layers::ResidualNorm output_;
};

}  // namespace comera::models
