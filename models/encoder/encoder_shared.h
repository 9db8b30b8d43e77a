// The parts that all blocks of an encoder share.
#pragma once

#include <optional>

#include "lib/layers/relative_bias.h"
#include "lib/layers/training/pass.h"
#include "models/encoder/encoder_spec.h"

namespace comera::models {

class EncoderShared {
 public:
  EncoderShared(layers::Builder& builder, const EncoderSpec& spec);

  void declare(std::int64_t length, plan::Inputs& inputs);
  // Around the backward of all blocks.
  void open(layers::Walk& walk, layers::Sink& sink);
  void close(layers::Walk& walk, layers::Sink& sink);

  // Null for families without one.
  layers::RelativeBias* bias() { return bias_ ? &*bias_ : nullptr; }

 private:
  std::optional<layers::RelativeBias> bias_;
};

}  // namespace comera::models
