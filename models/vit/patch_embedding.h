// The first layer of a vision transformer: row 0 of an image is the class token, row 1 + p its patch p times a matrix;
// to each row its position is added.
#pragma once

#include "lib/data/batch.h"
#include "lib/layers/linear.h"
#include "models/block_stack.h"
#include "models/vit/vit_spec.h"

namespace comera::models {

class PatchEmbedding {
 public:
  PatchEmbedding(Builder& builder, const VitSpec& spec);

  // Lists the patches in the activation dtype, and the indices of the rows.
  void declare(const data::Batch& batch, plan::Inputs& inputs);
  // [B*T, hidden]; the caller drops it.
  Tensor forward(Pass& pass);
  // Takes ownership of d.
  void backward(Pass& pass, Sink& sink, Tensor d);

 private:
  void cut(const data::Batch& batch);
  void number_rows(std::int64_t images);
  kernels::Bags positions(const Pass& pass) const;
  kernels::Bags class_rows(const Pass& pass) const;

  DType dtype_;
  std::int64_t hidden_, side_, patch_, channels_, tokens_;  // side_: patches along an edge
  LinearSet projection_;
  layers::Parameter *class_token_, *positions_;
  std::vector<std::byte> numbers_;                                                // [B * patches, channels * P * P]
  std::vector<std::int32_t> position_ids_, class_ids_, class_ends_, rows_;        // rows_: of each patch in [B*T]
  Tensor patches_, position_tensor_, class_tensor_, class_offsets_, row_tensor_;  // inputs
};

}  // namespace comera::models
