// A small vision transformer and its batch.
#pragma once

#include "lib/data/images/image_frame.h"
#include "tests/models/small_forms.h"

// Two blocks; two by two patches of 2 x 2 pixels.
inline comera::models::VitSpec small_vit(comera::models::Form form, std::int64_t channels = 3) {
  using namespace comera;
  models::VitSpec spec;
  spec.image = 4, spec.patch = 2, spec.channels = channels;
  spec.positions = spec.tokens();
  spec.hidden = 8;
  spec.layers = 2;
  spec.heads = 2;
  spec.intermediate = 12;
  spec.dropout = 0.2, spec.attention_dropout = 0.1;
  spec.labels = {"a", "b", "c"};
  apply_small_forms(spec, form);
  return spec;
}

// Three images, the second without a label.
inline comera::data::Batch small_image_batch(const comera::models::VitSpec& spec) {
  using namespace comera;
  data::Batch batch;
  data::shape_image_batch(models::frame_of(spec), 3, batch);
  batch.counted = 2;
  const auto pixels = batch["pixel_values"].as<float>();
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<float>(i * 7 % 11) / 5 - 1;
  const auto labels = batch["labels"].as<std::int32_t>();
  const auto samples = batch["samples"].as<std::int64_t>();
  labels[0] = 2, labels[1] = -1, labels[2] = 0;
  for (int b = 0; b < 3; ++b) samples[b] = 100 + b;
  return batch;
}
