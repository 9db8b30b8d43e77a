#include "models/encoder/encoder_shared.h"

#include <algorithm>

namespace comera::models {

EncoderShared::EncoderShared(Builder& builder, const EncoderSpec& spec) : reach_(spec.modern.reach) {
  const std::string name = EncoderNames(spec).relative_bias;
  if (!name.empty()) bias_.emplace(builder, name, spec.heads, spec.form_of(name).storage == layers::Storage::fixed);
  if (!is_modern(spec)) return;
  for (std::int64_t i = 0; i < spec.layers; ++i) {
    const bool near = has_window(spec, i);
    kernels::RotaryAngles angles;
    angles.theta = near ? spec.modern.near_theta : spec.modern.theta;
    if (!rotary_[near]) rotary_[near].emplace(spec.hidden / spec.heads, angles);
  }
}

void EncoderShared::declare(const data::Batch& batch, plan::Inputs& inputs, KeyRanges& keys) {
  if (bias_) bias_->declare(batch.length, inputs);
  if (rotary_[false] || rotary_[true]) {
    position_ids_.resize(static_cast<std::size_t>(batch.sequences * batch.length));
    for (std::size_t k = 0; k < position_ids_.size(); ++k)
      position_ids_[k] = static_cast<std::int32_t>(static_cast<std::int64_t>(k) % batch.length);
    inputs.add(position_ids_, positions_);
  }
  if (rotary_[true]) declare_window(batch, inputs, keys);
}

// A query attends to itself and `reach` keys on each side.
void EncoderShared::declare_window(const data::Batch& batch, plan::Inputs& inputs, KeyRanges& keys) {
  const auto lengths = batch["lengths"].as<const std::int32_t>();
  near_begin_.clear();
  near_end_.clear();
  for (const std::int32_t length : lengths)
    for (std::int64_t t = 0; t < batch.length; ++t) {
      near_begin_.push_back(static_cast<std::int32_t>(std::max<std::int64_t>(0, t - reach_)));
      near_end_.push_back(static_cast<std::int32_t>(std::min<std::int64_t>(length, t + reach_ + 1)));
    }
  inputs.add({near_begin_.data(), DType::i32, {batch.sequences, batch.length}}, keys.near_begin);
  inputs.add({near_end_.data(), DType::i32, {batch.sequences, batch.length}}, keys.near_end);
}

void EncoderShared::begin(Pass& pass) {
  for (std::optional<layers::Rotary>& rotary : rotary_)
    if (rotary) rotary->begin(pass, positions_, pass.length, {});
}

void EncoderShared::end(Walk& walk) {
  for (std::optional<layers::Rotary>& rotary : rotary_)
    if (rotary) rotary->end(walk);
}

void EncoderShared::open(Walk& walk, Sink& sink) {
  if (bias_) bias_->open(walk, sink);
}

void EncoderShared::close(Walk& walk, Sink& sink) {
  if (bias_) bias_->close(walk, sink);
}

}  // namespace comera::models
