#include "models/encoder/encoder_shared.h"

namespace comera::models {

EncoderShared::EncoderShared(layers::Builder& builder, const EncoderSpec& spec) {
  const std::string name = EncoderNames(spec).relative_bias;
  if (!name.empty()) bias_.emplace(builder, name, spec.heads, spec.form_of(name).storage == layers::Storage::fixed);
}

void EncoderShared::declare(std::int64_t length, plan::Inputs& inputs) {
  if (bias_) bias_->declare(length, inputs);
}

void EncoderShared::open(layers::Walk& walk, layers::Sink& sink) {
  if (bias_) bias_->open(walk, sink);
}

void EncoderShared::close(layers::Walk& walk, layers::Sink& sink) {
  if (bias_) bias_->close(walk, sink);
}

}  // namespace comera::models
