// The parts that all blocks of an encoder share: a bias of attention by distance (MPNet), rotary positions and a window
// of keys (ModernBERT).
#pragma once

#include <optional>

#include "lib/layers/relative_bias.h"
#include "lib/layers/rotary.h"
#include "models/block_stack.h"
#include "models/encoder/encoder_spec.h"

namespace comera::models {

class EncoderShared {
 public:
  EncoderShared(Builder& builder, const EncoderSpec& spec);

  // Lists the inputs of the parts, and keys.near_begin and keys.near_end. `batch` has `lengths`.
  void declare(const data::Batch& batch, plan::Inputs& inputs, KeyRanges& keys);
  // Around a forward and its backward.
  void begin(Pass& pass);
  void end(Walk& walk);
  // Around the backward of all blocks.
  void open(Walk& walk, Sink& sink);
  void close(Walk& walk, Sink& sink);

  // Null for families without one.
  layers::RelativeBias* bias() { return bias_ ? &*bias_ : nullptr; }
  const layers::Rotary* rotary(bool near) const { return rotary_[near] ? &*rotary_[near] : nullptr; }

 private:
  void declare_window(const data::Batch& batch, plan::Inputs& inputs, KeyRanges& keys);

  std::optional<layers::RelativeBias> bias_;
  std::optional<layers::Rotary> rotary_[2];  // of layers without and with a window
  std::int64_t reach_ = 0;
  std::vector<std::int32_t> position_ids_, near_begin_, near_end_;
  Tensor positions_;  // input
};

}  // namespace comera::models
