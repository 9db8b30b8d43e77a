// One block of a decoder: attention and gated feed-forward. Each reads a norm of the residual stream and adds its
// result to the stream.
#pragma once

#include <optional>

#include "lib/layers/attention.h"
#include "lib/layers/cache.h"
#include "lib/layers/gated.h"
#include "lib/layers/norm.h"
#include "models/block_stack.h"
#include "models/decoder/decoder_spec.h"

namespace comera::models {

// Tensors that all blocks of a pass share.
struct SharedByBlocks {
  layers::Rotary rotary;
  const layers::KeyValueCache* cache = nullptr;  // null: uses the keys and values of the pass
  Tensor cache_rows{};                           // i32 [K]
};

class DecoderBlock final : public Block {
 public:
  DecoderBlock(Builder& builder, const DecoderSpec& spec, std::int64_t index, const SharedByBlocks& shared);

  Flow forward(Pass& pass, Flow in, const KeyRanges& keys) override;
  FlowGradient backward(Pass& pass, Sink& sink, FlowGradient d) override;

 private:
  // The norms of a head's queries and keys and their rotation, and back.
  void turn(Pass& pass, Tensor* qk);
  void turn_back(Pass& pass, Sink& sink, Tensor* d_qk);
  Value attend(Pass& pass, Tensor* qkv, const KeyRanges& keys);
  Tensor attention_branch(Pass& pass, Value x, const KeyRanges& keys);
  Tensor feed_forward(Pass& pass, Value x);
  void attention_backward(Pass& pass, Sink& sink, Tensor d, const Tensor& dx);
  void feed_forward_backward(Pass& pass, Sink& sink, Tensor d, const Tensor& dx);

  const SharedByBlocks& shared_;
  std::int64_t index_, wide_, intermediate_;
  bool near_;  // attends to a window
  LinearSet qkv_;
  std::optional<layers::ResidualNorm> head_norms_[2];
  layers::Attention attention_;
  LinearSet projection_;
  layers::ResidualNorm middle_;
  LinearSet gate_up_;
  layers::Gated gated_;
  LinearSet down_;
  layers::ResidualNorm output_;
};

}  // namespace comera::models
