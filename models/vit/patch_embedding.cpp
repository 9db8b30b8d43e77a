#include "models/vit/patch_embedding.h"

#include "kernels/elementwise.h"
#include "kernels/embedding.h"

namespace comera::models {
namespace {

constexpr double start_deviation = 0.02;  // of class token and positions, as transformers starts them

const std::int32_t* ids_of(const Tensor& tensor) { return static_cast<const std::int32_t*>(tensor.data); }

layers::Parameter* add_rows(Builder& builder, const char* name, std::int64_t rows, std::int64_t columns) {
  layers::Parameter parameter;
  parameter.name = name;
  parameter.role = layers::Role::table;
  parameter.shape = {rows, columns};
  parameter.file_shape = {1, rows, columns};
  parameter.init = {layers::Init::Distribution::normal, start_deviation};
  return builder.add(std::move(parameter));
}

void look_up(Pass& pass, const kernels::Bags& bags, layers::Parameter& table, const Tensor& y, bool accumulate) {
  pass.walk.run(pass.backend().embedding_forward,
                kernels::EmbeddingForward{bags, table.shape[0], table.shape[1], layers::brought(pass.walk, table).data,
                                          y.data, accumulate});
}

void look_up_backward(Pass& pass, Sink& sink, const kernels::Bags& bags, layers::Parameter& table, const Tensor& dy) {
  Tensor gradient = sink.open(pass.walk, table);
  pass.walk.run(pass.backend().embedding_backward,
                kernels::EmbeddingBackward{bags, table.shape[0], table.shape[1], dy.data, gradient.data});
  sink.close(pass.walk, table, gradient);
}

}  // namespace

PatchEmbedding::PatchEmbedding(Builder& builder, const VitSpec& spec)
    : dtype_(builder.dtype),
      hidden_(spec.hidden),
      side_(spec.image / spec.patch),
      patch_(spec.patch),
      channels_(spec.channels),
      tokens_(spec.tokens()),
      projection_(LinearSet::make(builder, {{VitNames::patches, spec.hidden}}, spec.patch_numbers(),
                                  kernels::Activation::none)),
      class_token_(add_rows(builder, VitNames::class_token, 1, spec.hidden)),
      positions_(add_rows(builder, VitNames::positions, spec.tokens(), spec.hidden)) {
  builder.parameters.find(std::string(VitNames::patches) + ".weight")->file_shape = {spec.hidden, channels_, patch_,
                                                                                     patch_};
}

// Patches in rows from the top left; a patch as channels, lines, columns.
void PatchEmbedding::cut(const data::Batch& batch) {
  const auto pixels = batch["pixel_values"].as<const float>();
  numbers_.resize(pixels.size() * size_of(dtype_));
  const std::int64_t each = channels_ * patch_ * patch_;
  const Tensor host{numbers_.data(), dtype_, {batch.sequences * side_ * side_, each}, -1};
  auto pixel = pixels.begin();
  for (std::int64_t plane = 0; plane < batch.sequences * channels_; ++plane)
    for (std::int64_t y = 0; y < side_ * patch_; ++y)
      for (std::int64_t column = 0; column < side_; ++column) {
        const std::int64_t patch = (plane / channels_ * side_ + y / patch_) * side_ + column;
        const std::int64_t line = patch * each + (plane % channels_ * patch_ + y % patch_) * patch_;
        for (std::int64_t x = 0; x < patch_; ++x) layers::store(host, line + x, *pixel++);
      }
}

void PatchEmbedding::number_rows(std::int64_t images) {
  position_ids_.clear(), class_ends_.assign(1, 0), rows_.clear();
  class_ids_.assign(static_cast<std::size_t>(images), 0);
  for (std::int64_t b = 0; b < images; ++b)
    for (std::int64_t t = 0; t < tokens_; ++t) {
      position_ids_.push_back(static_cast<std::int32_t>(t));
      class_ends_.push_back(static_cast<std::int32_t>(b + 1));
      if (t > 0) rows_.push_back(static_cast<std::int32_t>(b * tokens_ + t));
    }
}

void PatchEmbedding::declare(const data::Batch& batch, plan::Inputs& inputs) {
  cut(batch);
  number_rows(batch.sequences);
  inputs.add({numbers_.data(), dtype_, {batch.sequences * side_ * side_, channels_ * patch_ * patch_}}, patches_);
  inputs.add(position_ids_, position_tensor_);
  inputs.add(class_ids_, class_tensor_);
  inputs.add(class_ends_, class_offsets_);
  inputs.add(rows_, row_tensor_);
}

kernels::Bags PatchEmbedding::positions(const Pass& pass) const {
  return {.bags = pass.tokens(),
          .ids = pass.tokens(),
          .id = ids_of(position_tensor_),
          .offsets = nullptr,
          .period = tokens_};
}

// Bags of one at the rows of the class token, empty bags at the others.
kernels::Bags PatchEmbedding::class_rows(const Pass& pass) const {
  return {.bags = pass.tokens(), .ids = pass.sequences, .id = ids_of(class_tensor_), .offsets = ids_of(class_offsets_)};
}

Tensor PatchEmbedding::forward(Pass& pass) {
  Tensor projected;
  projection_.forward(pass, {patches_, nullptr}, &projected);
  Tensor x = pass.walk.make("embeddings", {pass.tokens(), hidden_});
  look_up(pass, positions(pass), *positions_, x, false);
  look_up(pass, class_rows(pass), *class_token_, x, true);
  pass.walk.run(pass.backend().scatter_rows, kernels::ScatterRows{projected.shape[0], hidden_, ids_of(row_tensor_),
                                                                  projected.data, x.data, hidden_});
  pass.walk.drop(projected);
  return x;
}

void PatchEmbedding::backward(Pass& pass, Sink& sink, Tensor d) {
  look_up_backward(pass, sink, positions(pass), *positions_, d);
  look_up_backward(pass, sink, class_rows(pass), *class_token_, d);
  Tensor d_projected = pass.walk.make("d_patches", {patches_.shape[0], hidden_});
  pass.walk.run(pass.backend().gather_rows, kernels::GatherRows{d_projected.shape[0], hidden_, ids_of(row_tensor_),
                                                                d.data, hidden_, d_projected.data});
  pass.walk.drop(d);
  projection_.backward(pass, sink, &d_projected, Tensor{}, false);
}

}  // namespace comera::models
